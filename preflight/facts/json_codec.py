"""Facts to JSON and back, driven by the dataclasses' own annotations, so that each fact is declared once.

Each type's decoder is built once, as a closure over the decoders of its parts: a preflight of a hundred hosts
decodes a hundred thousand values, and asking `typing` about each would cost more than the SSH connections.
"""

import dataclasses
import hashlib
import marshal
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from preflight.errors import MalformedFacts
from preflight.facts.missing import Missing, MissingCode

T = TypeVar("T")

_Decoder: TypeAlias = Callable[[object], Any]

_MISSING_KEY = "missing"
_MISSING_CODES = frozenset(get_args(MissingCode))
_FEWEST_SHARED = 4
_MOST_SHARED = 4096
_texts: dict[str, str] = {}
_shared: dict[Any, Any] = {}  # what hosts of a fleet have alike is kept once; cleared when full
_LARGEST = 1 << 64  # no number of a host is as large; sums over hosts would be an OverflowError


def encode(value: object) -> Any:
    """Return `value` as plain JSON types; Missing becomes {"missing": REASON, "code": CODE}."""
    if isinstance(value, Missing):
        return {_MISSING_KEY: value.reason, "code": value.code}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(encode(item) for item in value)
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], data: object) -> T:
    """Return `data` (parsed JSON) as a `kind`.

    Unknown keys are ignored, so that an older client reads a newer agent. A fact that is absent altogether
    becomes Missing, and so does one with a word that its enumeration does not have; anything else that does
    not fit raises MalformedFacts naming the JSON path.
    """
    if len(_texts) >= _MOST_SHARED:
        _texts.clear()
    try:
        return cast("T", _decoder(cast("Any", kind))(data))
    except _MisfitError as misfit:
        path = "$" + "".join(reversed(misfit.path))
        raise MalformedFacts(f"{path}: {misfit.problem}") from None


class _MisfitError(Exception):
    """Data that does not fit; each level on the way out adds its part of the path, innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []


class _UnknownWordError(_MisfitError):
    """A word that is none of an enumeration's: a newer gpulaunch may have more of them."""


@cache
def _decoder(kind: Any) -> _Decoder:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union_decoder(get_args(kind))
    if origin is Literal:
        return _literal_decoder(get_args(kind))
    if origin is tuple:
        return _tuple_decoder(get_args(kind))
    if origin is frozenset:
        decoder = _list_decoder(get_args(kind)[0])
        return lambda data: frozenset(decoder(data))
    if kind is Any:
        return lambda data: data
    if origin is dict:
        return _dict_decoder(get_args(kind)[1])
    if dataclasses.is_dataclass(kind):
        return _dataclass_decoder(cast("type[Any]", kind))
    return _scalar_decoder(kind)


def _union_decoder(members: tuple[Any, ...]) -> _Decoder:
    may_be_missing, may_be_none = Missing in members, type(None) in members
    decoders = [_decoder(member) for member in members if member not in (Missing, type(None))]

    def decode_union(data: object) -> Any:
        if may_be_missing and isinstance(data, dict) and isinstance(data.get(_MISSING_KEY), str):
            code = data.get("code", "error")
            known = isinstance(code, str) and code in _MISSING_CODES
            why = data[_MISSING_KEY], code if known else "error"
            return _shared[why] if why in _shared else _share(why, Missing(why[0], cast("Any", why[1])))
        if data is None and may_be_none:
            return None
        first: _MisfitError | None = None
        for decoder in decoders:
            try:
                return decoder(data)
            except _MisfitError as misfit:
                first = first or misfit
        if may_be_missing and isinstance(first, _UnknownWordError):
            return Missing("".join([*reversed(first.path), ": "] * bool(first.path)) + first.problem)
        raise first or _MisfitError(f"expected nothing, got {_show(data)}")

    return decode_union


def _literal_decoder(values: tuple[Any, ...]) -> _Decoder:
    def decode_literal(data: object) -> Any:
        if data in values:
            return data
        raise (_UnknownWordError if isinstance(data, str) else _MisfitError)(
            f"expected one of {values}, got {_show(data)}"
        )

    return decode_literal


def _tuple_decoder(members: tuple[Any, ...]) -> _Decoder:
    if len(members) == 2 and members[1] is Ellipsis:
        return _list_decoder(members[0])
    decoders = [_decoder(member) for member in members]

    def decode_tuple(data: object) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise _MisfitError(f"expected a list, got {_show(data)}")
        if len(data) != len(decoders):
            raise _MisfitError(f"expected {len(decoders)} items, got {len(data)}")
        pairs = enumerate(zip(decoders, data, strict=True))
        return tuple(_at(f"[{index}]", decoder, item) for index, (decoder, item) in pairs)

    return decode_tuple


def _list_decoder(member: Any) -> _Decoder:
    decoder, plain, kind = _decoder(member), {_plain(member)}, repr(member).encode()

    def decode_list(data: object) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise _MisfitError(f"expected a list, got {_show(data)}")
        if set(map(type, data)) == plain:
            return tuple(data)
        key = _shared_key(kind, data)
        if key in _shared:
            return cast("tuple[Any, ...]", _shared[key])
        done: list[Any] = []
        try:
            for item in data:
                done.append(decoder(item))  # noqa: PERF401 - how many are done is where it went wrong
        except _MisfitError as misfit:
            misfit.path.append(f"[{len(done)}]")
            raise
        return _share(key, tuple(done))

    return decode_list


def _dict_decoder(member: Any) -> _Decoder:
    decoder, plain, kind = _decoder(member), {_plain(member)}, b"dict"

    def decode_dict(data: object) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise _MisfitError(f"expected an object, got {_show(data)}")
        if set(map(type, data.values())) == plain:
            return _share(_shared_key(kind, data), data)
        return {str(key): _at(f".{key}", decoder, item) for key, item in data.items()}

    return decode_dict


def _shared_key(kind: bytes, data: list[Any] | tuple[Any, ...] | dict[str, Any]) -> bytes:
    """Return what only equal values of one kind have in common; marshal is the fastest to write them out."""
    if len(data) < _FEWEST_SHARED:
        return b""
    try:
        return hashlib.blake2b(kind + marshal.dumps(data, 2), digest_size=20).digest()
    except ValueError:  # nested deeper than marshal goes
        return b""


def _share(key: object, value: T) -> T:
    """Return the equal value that an earlier host had, or keep this one for the next; no key: as it is."""
    if not key:
        return value
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    return cast("T", _shared.setdefault(key, value))


def _dataclass_decoder(kind: type[Any]) -> _Decoder:
    hints = typing.get_type_hints(kind)
    fields = [
        (field.name, _plain(hints[field.name]), _decoder(hints[field.name]))
        for field in dataclasses.fields(kind)
    ]
    of_scalars = all(map(_is_scalar, hints.values()))
    absent = Missing("the answer does not hold it", "not-asked")
    may_be_absent = frozenset(name for name, hint in hints.items() if Missing in get_args(hint))
    required = frozenset(
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )

    def decode_dataclass(data: object) -> Any:
        if not isinstance(data, dict):
            raise _MisfitError(f"expected an object, got {_show(data)}")
        values: dict[str, Any] = {}
        for name, plain, decoder in fields:
            if name in data:
                value = data[name]
                if type(value) is plain:
                    values[name] = _texts.setdefault(value, value) if isinstance(value, str) else value
                    continue
                try:
                    values[name] = decoder(value)
                except _MisfitError as misfit:
                    misfit.path.append(f".{name}")
                    raise
            elif name in may_be_absent:
                values[name] = absent
            elif name in required:
                raise _MisfitError(f"{name} is absent")
        if not of_scalars:
            return kind(**values)
        key = (kind, *values.values()) if len(values) == len(fields) else None
        return _shared[key] if key in _shared else _share(key, kind(**values))

    return decode_dataclass


def _is_scalar(kind: Any) -> bool:
    """Whether values of a kind are numbers or words of one type, or Missing: equal ones are alike."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    found = [member for member in members if member is not Missing]
    return len(found) == 1 and (found[0] in (str, int, float, bool) or get_origin(found[0]) is Literal)


def _plain(kind: Any) -> type | None:
    """Return the type whose values are a `kind` as they are, None without one: texts need no decoder."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    found = [member for member in members if member in (str, bool)]
    return found[0] if len(found) == 1 else None


def _scalar_decoder(kind: Any) -> _Decoder:
    if kind in (int, float):
        return _decode_integer if kind is int else _decode_float
    name = getattr(kind, "__name__", kind)

    def decode_scalar(data: object) -> Any:
        if type(data) is kind:
            return data
        raise _MisfitError(f"expected {name}, got {_show(data)}")

    return decode_scalar


def _decode_integer(data: object) -> int:
    if type(data) is not int:
        raise _MisfitError(f"expected int, got {_show(data)}")
    if -_LARGEST < data < _LARGEST:
        return data
    raise _MisfitError(f"expected int of 64 bits, got {_show(data)}")


def _decode_float(data: object) -> float:
    if type(data) is float and math.isfinite(data):
        return data
    if type(data) is int and -_LARGEST < data < _LARGEST:
        return float(data)
    what = "float" if type(data) not in (int, float) else "finite float"
    raise _MisfitError(f"expected {what}, got {_show(data)}")


def _at(step: str, decoder: _Decoder, data: object) -> Any:
    try:
        return decoder(data)
    except _MisfitError as misfit:
        misfit.path.append(step)
        raise


def _show(data: object) -> str:
    try:
        text = repr(data)
    except ValueError:  # an integer too long to be written
        text = "a number without end"
    return text if len(text) <= 60 else text[:57] + "..."
