"""JSON for people and programs: one line for each item down to a depth, everything deeper within its line."""

import json
from typing import Any

_STEP = "  "


def json_text(value: Any, *, depth: int, indent: str = "") -> str:
    """Return `value` as JSON text, its outer `depth` levels laid out line by line.

    `json.dumps(indent=...)` writes value by value in Python, which is felt with a hundred hosts.
    """
    inner = indent + _STEP
    if depth and isinstance(value, dict) and value:
        lines = (
            f"{inner}{json.dumps(key)}: {json_text(item, depth=depth - 1, indent=inner)}"
            for key, item in value.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if depth and isinstance(value, list) and value:
        lines = (inner + json_text(item, depth=depth - 1, indent=inner) for item in value)
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value)
