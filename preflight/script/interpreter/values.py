"""What reading a script can know of a value: a constant, a dtype, an object, one of several, nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.library_names import KNOWN_ROOTS

Scalar: TypeAlias = str | int | float | bool | bytes | None

MAX_ALTERNATIVES = 8  # more possible values than this are as good as unknown

GIVEN = "os.environ of a rank."  # before the name of a variable that each launch sets, to what is not known


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known. Rules stay silent or warn on it; it is never an error."""

    by_rank: bool = field(default=False, compare=False)  # it was made with the rank, and may differ with it
    on: str = field(default="", compare=False)  # "cpu" or "cuda" of a tensor that is surely on it


@dataclass(frozen=True, slots=True)
class Const:
    """A Python constant; `place` is where the script writes it."""

    value: Scalar
    place: CodeLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Dtype:
    """A torch dtype by its name, e.g. "float16"; `place` is where the script names it."""

    name: str
    place: CodeLocation | None = field(default=None, compare=False)
    actual: str = field(default="", compare=False)  # of "own": the dtype of all parameters, where it is known


@dataclass(frozen=True, slots=True)
class RankValue:
    """What differs from rank to rank: LOCAL_RANK, a process index, a comparison with one."""

    first: bool | None = field(default=None, compare=False)  # of a comparison: True on rank 0 only, or not
    sure: bool | None = field(default=None, compare=False)  # the answer from which this follows, None: either
    of: str = ""  # OF_NODE: the rank in its node, OF_LAUNCH: in all of the launch, "": either


@dataclass(frozen=True, slots=True)
class Device:
    """A torch device. `index` None: the current one; `of_rank`: by the rank; `is_text`: a string."""

    kind: str
    index: int | None = None
    of_rank: bool = False
    place: CodeLocation | None = field(default=None, compare=False)  # where the script names it
    is_text: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ExternalName:
    """A name from a library, fully dotted: "transformers.Trainer". Libraries are not read, only known."""

    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the script's own, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Func:
    """A function or method that the script defines; `key` finds its syntax tree."""

    key: int
    frame: int
    bound: "Value | None" = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class that the script defines."""

    key: int
    frame: int


@dataclass(frozen=True, slots=True)
class Ref:
    """An object on the heap."""

    id: int
    shared: bool = False  # a model by the name that goes through its DDP, on one path at least


@dataclass(frozen=True, slots=True)
class Element:
    """A submodule, a parameter iterator or one parameter of the model `of`; `what` says which."""

    of: int
    what: str  # "module", "parameters", "parameter", "data", "grad", "state"


def get_id(value: "Ref | Element") -> int:
    """Return the number of the thing that a value is, or is a part of."""
    return value.id if isinstance(value, Ref) else value.of


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a heap object or a part of one, to be called."""

    owner: "Ref | Element"
    name: str


@dataclass(frozen=True, slots=True)
class Seq:
    """A list or tuple with known items; `open` when there may be more."""

    items: tuple["Value", ...]
    open: bool = False
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _measure(self, self.items)


@dataclass(frozen=True, slots=True)
class Map:
    """A dict with known keys; `open` when there may be more; `places` is where each entry is written."""

    items: tuple[tuple[Scalar, "Value"], ...]
    open: bool = False
    places: Mapping[Scalar, CodeLocation] = field(default_factory=dict, compare=False)
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _measure(self, [value for _, value in self.items])

    def get(self, key: Scalar) -> "Value | None":
        """Return the value of a key, None when it does not exist."""
        return next((value for name, value in self.items if name == key and type(name) is type(key)), None)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values, depending on what reading cannot know; equal in any order.

    The order is the script's: a set's differs from run to run, and so would what is reported of the first.
    `held` says of those that rank 0 alone has True, of those that only other ranks have False.
    """

    values: tuple["Value", ...] = field(compare=False)
    held: "Mapping[Value, bool] | None" = field(default=None, compare=False, repr=False)
    _compared: frozenset["Value"] = field(init=False, repr=False)
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compared", frozenset(self.values))
        _measure(self, self.values)


def _measure(whole: "Seq | Map | OneOf", parts: "Sequence[Value]") -> None:
    """Note how much a value holds: one object may be in it many times, and counts each time, as for `==`.

    An entry of a dict is worth four items of a list: changing one copies keys, values and places.
    """
    each = 4 if isinstance(whole, Map) else 1
    weight, depth = 1 + each * len(parts), 0
    for part in () if _WHOLES.isdisjoint(map(type, parts)) else parts:
        if isinstance(part, (Seq, Map, OneOf)):
            weight += part.weight
            depth = max(depth, part.depth)
    object.__setattr__(whole, "weight", weight)
    object.__setattr__(whole, "depth", depth + 1)


_WHOLES = frozenset({Seq, Map, OneOf})

Value: TypeAlias = (
    Unknown
    | Const
    | Dtype
    | RankValue
    | Device
    | ExternalName
    | Module
    | Func
    | Class
    | Ref
    | Element
    | Method
    | Seq
    | Map
    | OneOf
)

UNKNOWN = Unknown()
OF_RANK = Unknown(by_rank=True)
OF_NODE, OF_LAUNCH = "node", "launch"
ON_CPU, ON_GPU = Unknown(on="cpu"), Unknown(on="cuda")
NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)


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


MODEL_FACTS = frozenset(
    {
        *("dtype", "adapters", "trainable", "upcast", "partly", "mixed", "quantized", "device_map"),
        *("optimized", "empty"),
        *("recast", "rounded", "stepped", "touched", "role", "accelerator", "peft", "forced", "sharded"),
    }
)
"""Attributes of a model that reading keeps; one that the script sets by such a name is none of them."""


def rename_attribute(name: str) -> str:
    """Return under which name a model holds what the script calls `self.dtype` and the like."""
    return f"own {name}" if name in MODEL_FACTS else name


@dataclass(frozen=True, slots=True)
class HeapObject:
    """An object the script made: a model, an optimizer, an Accelerator... with what is known of it.

    `kind` is one of the words of preflight.script.libraries.call_table; `attrs` are its known attributes.
    """

    kind: str
    place: CodeLocation
    attrs: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, name: str, default: Value = NONE) -> Value:
        """Return an attribute."""
        return self.attrs.get(name, default)

    def with_changes(self, /, **changes: Value) -> "HeapObject":
        """Return the thing with attributes changed."""
        return HeapObject(self.kind, self.place, MappingProxyType({**self.attrs, **changes}))


def join_things(
    one: HeapObject, other: HeapObject, meet: Callable[[Value, Value], Value] | None
) -> HeapObject:
    """Return what is known of an object that was treated differently on two paths."""
    if one is other or (meet is None and one == other):
        return one
    pairs = {name: (one.get(name), other.get(name)) for name in {**one.attrs, **other.attrs}}
    joined = {name: meet(*pair) if meet else join(pair) for name, pair in pairs.items()}
    return HeapObject(one.kind, one.place, MappingProxyType(joined))
