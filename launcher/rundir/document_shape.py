"""The shape of a JSON object that a host sends, as a table of its keys; other keys may be anything."""

from collections.abc import Mapping
from typing import Any

from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass


def build_shape(
    required: Mapping[str, Any] | None = None,
    *,
    not_null: Mapping[str, object] | None = None,
    **optional: Any,
) -> type[Any]:
    """Return the kind of an object with these keys, each with the kind of its value.

    No `required` key is absent. Those of `not_null` may be, each with the value that it then has,
    whose kind any other one has. The `optional` ones may be absent or null.
    """
    absent = {**(not_null or {}), **dict.fromkeys(optional)}
    kinds = {name: type(value) for name, value in (not_null or {}).items()}
    kinds |= {name: kind | None for name, kind in optional.items()}
    return dataclass(frozen=True, slots=True)(
        type("Shape", (), {"__annotations__": {**(required or {}), **kinds}, **absent})
    )


def find_misfit(kind: type[Any], data: object) -> str:
    """Return what is wrong with data of a shape, "" where it fits."""
    try:
        decode(kind, data)
    except MalformedFacts as misfit:
        return misfit.message
    return ""
