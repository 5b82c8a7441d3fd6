"""Every document of gpulaunch that a test parses is held against the JSON Schema that the site has of it."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.pages.json_schemas import Schema, json_schemas

_NAME = "gpulaunch."
_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": int | float,
    "null": type(None),
}
schemas = cache(json_schemas)
_parse = json.loads


def watch_documents() -> None:
    """From now on `json.loads` in a module of tests raises AssertionError where a document does not fit."""
    vars(json)["loads"] = _parse_and_check


def _parse_and_check(text: str | bytes | bytearray, **options: Any) -> Any:
    value = _parse(text, **options)
    if type(value) is dict and str(value.get("schema", "")).startswith(_NAME):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        name = value["schema"].removeprefix(_NAME).removesuffix("/1")
        if caller.startswith("tests.") and name in schemas():
            misfits = [*find_misfits(schemas()[name], value)]
            assert not misfits, f"no {value['schema']}: {misfits[:5]}"
    return value


def find_misfits(schema: Schema, value: Any, at: str = "$") -> Iterator[str]:
    """Yield what of a value does not fit a schema, for the words that `json_schemas` uses."""
    if "anyOf" in schema:
        if all(any(find_misfits(each, value)) for each in schema["anyOf"]):
            yield f"{at}: {value!r} fits none of {schema['anyOf']}"
        return
    if value not in schema.get("enum", [schema.get("const", value)]):
        yield f"{at}: {value!r} is no value of {schema}"
    kind = schema.get("type")
    is_number = kind in ("integer", "number")
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (is_number and isinstance(value, bool))):
        yield f"{at}: {value!r} is no {kind}"
    elif isinstance(value, dict):
        yield from (f"{at}: no {key}" for key in schema.get("required", ()) if key not in value)
        named, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, item in value.items():
            yield from find_misfits(named.get(key, other), item, f"{at}.{key}")
    elif isinstance(value, list):
        kinds = schema.get("prefixItems", [schema.get("items", {})] * len(value))
        for number, (each, item) in enumerate(zip(kinds, value, strict=True)):
            yield from find_misfits(each, item, f"{at}[{number}]")
