"""JSON for people and programs: objects laid out down to a depth, lists with a line for each item."""

import json
from typing import Any

_STEP = "  "
_encode = json.JSONEncoder().encode


def json_text(value: Any, *, depth: int, indent: str = "") -> str:
    """Return `value` as JSON text, its outer `depth` levels laid out line by line, but no item of a list.

    `json.dumps(indent=...)` writes value by value in Python, which is felt with a hundred hosts.
    """
    inner = indent + _STEP
    if depth and isinstance(value, dict) and value:
        lines = (
            f"{inner}{_encode(key)}: {json_text(item, depth=depth - 1, indent=inner)}"
            for key, item in value.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if depth and isinstance(value, list) and value:
        lines = (inner + _encode(item) for item in value)
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return _encode(value)
