"""What is sure of a value, and values that are made of others."""

from collections.abc import Collection, Iterable, Sequence

from preflight.facts.script import CodeLocation
from preflight.script.library_names import KNOWN_ROOTS
from preflight.script.values import (
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Map,
    OneOf,
    RankValue,
    Ref,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import GIVEN, OF_RANK, UNKNOWN

MAX_ALTERNATIVES = 8  # more possible values than this are as good as unknown


def get_id(value: "Ref | Element") -> int:
    """Return the number of the thing that a value is, or is a part of."""
    return value.id if isinstance(value, Ref) else value.of


def list_values(value: Value) -> Collection[Value]:
    """Return the value alone, or each that it may be."""
    return value.values if type(value) is OneOf else (value,)


def join(values: Iterable[Value]) -> Value:
    """Return the value that is one of these."""
    values = tuple(values)
    first = values[0] if values else UNKNOWN
    for value in values:
        if value is not first:
            break
    else:
        return first
    flat = dict.fromkeys(item for value in values for item in list_values(value))
    odd = [value for value in values if type(value) is Unknown and value is not UNKNOWN]
    if odd and UNKNOWN in flat:
        by_rank = any(value.by_rank for value in odd)  # on one path, or all
        flat = {
            (OF_RANK if by_rank else _alike(item, values)) if item == UNKNOWN else item: None for item in flat
        }
    if RankValue in map(type, flat):  # of a node on one path, of the launch on another
        ranks = [item for item in flat if type(item) is RankValue]
        flat = dict.fromkeys(RankValue() if len(ranks) > 1 and item in ranks else item for item in flat)
    if through := {item.id for item in flat if type(item) is Ref and item.shared}:
        flat = {item: None for item in flat if type(item) is not Ref or item.shared or item.id not in through}
    if len(flat) == 1:
        return next(iter(flat))
    if len(flat) > MAX_ALTERNATIVES:
        return UNKNOWN
    chosen = [dict(value.held) for value in values if type(value) is OneOf and value.held]
    return OneOf(tuple(flat), _held_alike(values, chosen) if chosen else None)


def _alike(item: Value, values: Iterable[Value]) -> Value:
    """Return a tensor that is on the same device on all paths, and what is not known of any other."""
    marked = isinstance(item, Unknown) and item.on
    return (
        UNKNOWN
        if marked and any(part is not item for value in values for part in list_values(value))
        else item
    )


def _held_alike(values: "Sequence[Value]", held: list[dict["Value", bool]]) -> dict["Value", bool]:
    """Return which of several values the same ranks have wherever one may be of them."""
    found = {item: first for each in held for item, first in each.items()}
    for value in values:
        known = (value.held if isinstance(value, OneOf) else None) or {}
        for item in list_values(value):
            if item in found and known.get(item) is not found[item]:
                del found[item]
    return found


def as_bool(value: Value) -> bool | None:
    """Return whether the value is true, None when reading cannot know."""
    answers = {_truth(item) for item in list_values(value)}
    return answers.pop() if len(answers) == 1 else None


def _truth(value: Value) -> bool | None:
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, ExternalName):  # a name in small or in capital letters may be a setting
        names = value.name.split(".")
        is_class = names[0] in KNOWN_ROOTS and names[-1][:1].isupper() and not names[-1].isupper()
        return True if is_class or value.name.startswith(GIVEN) else None
    if isinstance(value, (Seq, Map)):
        return True if value.items else (None if value.open else False)
    return None if isinstance(value, (Unknown, RankValue)) else True


def is_none(value: Value) -> bool:
    """Whether a value is surely None."""
    return type(value) is Const and value.value is None


def may_be_rank(value: Value) -> bool:
    """Whether a value is a rank or a comparison with one, or may be."""
    return any(type(item) is RankValue for item in list_values(value))


def merge_maps(left: Map, right: Map) -> Map:
    """Return `{**left, **right}`."""
    items = tuple({**dict(left.items), **dict(right.items)}.items())
    return Map(items, left.open or right.open, {**left.places, **right.places})


def build_map(given: Value) -> Map:
    """Return what `dict(given)` holds: of pairs, those whose keys are known."""
    if not isinstance(given, Seq):
        return given if isinstance(given, Map) else Map((), open=True)
    rows = [item.items for item in given.items if isinstance(item, Seq) and len(item.items) == 2]
    named = {row[0].value: row[1] for row in rows if isinstance(row[0], Const)}
    return Map(tuple(named.items()), open=given.open or len(named) < len(given.items))


def as_iterable(value: Value) -> Value:
    """Return what a loop over a dict goes over, where all its names are known; any other value as it is.

    A dict with a name such as `__scaled__` represents a tensor.
    """
    if not isinstance(value, Map) or value.open or any(str(name)[:2] == "__" for name, _ in value.items):
        return value
    return Seq(tuple(Const(name, value.places.get(name)) for name, _ in value.items))


def place_of(value: Value | None) -> CodeLocation | None:
    """Return where the script writes a value, None when that is not known."""
    return value.place if isinstance(value, (Const, Dtype, Device)) else None


_MAX_LOOKED_AT = 8  # items of a list that are asked whether they differ from rank to rank


def is_by_rank(value: Value | None) -> bool:
    """Whether a value, or something in a list of values, differs from rank to rank, as far as is known."""
    if type(value) is Unknown:
        return value.by_rank
    if isinstance(value, (OneOf, Seq)):
        items = value.values if isinstance(value, OneOf) else value.items
        return any(map(is_by_rank, items[:_MAX_LOOKED_AT]))
    return type(value) is RankValue


def as_text(value: Value | None) -> str | None:
    """Return the string a value surely is, else None."""
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None
