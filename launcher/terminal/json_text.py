"""JSON for people and programs: objects laid out down to a depth, lists with a line for each item."""

import json
from collections.abc import Iterator
from typing import Any

_STEP = " "
_encode = json.JSONEncoder().encode


def lay_out_json(value: Any, *, depth: int) -> str:
    """Return `value` as JSON text, its outer `depth` levels laid out line by line, but no item of a list.

    `json.dumps(indent=...)` writes value by value in Python, which is felt with a hundred hosts.
    """
    return "".join(lay_out_pieces(value, depth=depth))


def lay_out_pieces(value: Any, *, depth: int, indent: str = "") -> Iterator[str]:
    """Yield the text of `lay_out_json`; a function among the values laid out is called for its value.

    So no more than one of ten thousand hosts is in memory as JSON.
    """
    if callable(value):
        value = value()
    inner = indent + _STEP
    if depth and isinstance(value, dict) and value:
        before = "{\n"
        for key, item in value.items():
            yield f"{before}{inner}{_encode(key)}: "
            yield from lay_out_pieces(item, depth=depth - 1, indent=inner)
            before = ",\n"
        yield f"\n{indent}}}"
    elif depth and isinstance(value, list) and value:
        before = "[\n"
        for item in value:
            yield f"{before}{inner}{_encode(item)}"
            before = ",\n"
        yield f"\n{indent}]"
    else:
        yield _encode(value)
