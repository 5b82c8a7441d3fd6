"""Facts to JSON and back, driven by the dataclasses' own annotations, so that each fact is declared once."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from preflight.errors import MalformedFacts
from preflight.facts import Missing

T = TypeVar("T")

_MISSING_KEY = "missing"


def encode(value: object) -> Any:
    """Return `value` (dataclasses, tuples, dicts, scalars) as plain JSON types; Missing: {"missing": ...}."""
    if isinstance(value, Missing):
        return {_MISSING_KEY: value.reason, "code": value.code}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], data: object, where: str = "$") -> T:
    """Return `data` (parsed JSON) as a `kind`.

    Unknown keys are ignored, so that an older client reads a newer agent. A fact that is absent altogether
    becomes Missing; anything else that does not fit raises MalformedFacts naming the JSON path.
    """
    return cast("T", _decode(kind, data, where))


def _decode(kind: Any, data: object, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), data, where)
    if origin is Literal:
        if data in get_args(kind):
            return data
        raise MalformedFacts(f"{where}: expected one of {get_args(kind)}, got {_show(data)}")
    if origin is tuple:
        return _decode_tuple(get_args(kind), data, where)
    if origin is dict:
        return _decode_dict(get_args(kind), data, where)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(cast("type[Any]", kind), data, where)
    return _decode_scalar(kind, data, where)


def _decode_union(members: tuple[Any, ...], data: object, where: str) -> Any:
    if Missing in members and isinstance(data, dict) and isinstance(data.get(_MISSING_KEY), str):
        code = data.get("code", "error")
        known = get_args(_hints(Missing)["code"])
        return Missing(data[_MISSING_KEY], code if code in known else "error")
    if data is None and type(None) in members:
        return None
    rest = [member for member in members if member not in (Missing, type(None))]
    failures: list[MalformedFacts] = []
    for member in rest:
        try:
            return _decode(member, data, where)
        except MalformedFacts as failure:
            failures.append(failure)
    raise failures[0]


def _decode_tuple(members: tuple[Any, ...], data: object, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise MalformedFacts(f"{where}: expected a list, got {_show(data)}")
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_decode(members[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(data) != len(members):
        raise MalformedFacts(f"{where}: expected {len(members)} items, got {len(data)}")
    pairs = enumerate(zip(members, data, strict=True))
    return tuple(_decode(member, item, f"{where}[{i}]") for i, (member, item) in pairs)


def _decode_dict(members: tuple[Any, ...], data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise MalformedFacts(f"{where}: expected an object, got {_show(data)}")
    return {str(key): _decode(members[1], item, f"{where}.{key}") for key, item in data.items()}


def _decode_dataclass(kind: type[Any], data: object, where: str) -> Any:
    if not isinstance(data, dict):
        raise MalformedFacts(f"{where}: expected an object, got {_show(data)}")
    values: dict[str, Any] = {}
    hints = _hints(cast("Any", kind))  # mypy: a type is hashable, whatever its metaclass
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _decode(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif _may_be_missing(hints[field.name]):
            values[field.name] = Missing("the answer does not hold it", "not-asked")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise MalformedFacts(f"{where}: {field.name} is absent")
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _may_be_missing(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType) and Missing in get_args(hint)


def _decode_scalar(kind: Any, data: object, where: str) -> Any:
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if kind is int and isinstance(data, int) and not isinstance(data, bool):
        return data
    if kind in (str, bool) and isinstance(data, kind):
        return data
    name = getattr(kind, "__name__", kind)
    raise MalformedFacts(f"{where}: expected {name}, got {_show(data)}")


def _show(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
