"""JSON that came from a host. Numbers that no program of ours writes are refused at the door.

`json.loads` takes NaN, Infinity, 1e999 and integers of any length. Each of them ends arithmetic far from this
module in an OverflowError, or makes a document of ours invalid JSON.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LONGEST_INTEGER = 20  # digits, a sign included: more than 64 bits hold is neither a time, a size nor a pid
_LARGEST = 64 << 20  # bytes of a document


def loads(line: bytes | str) -> Any:
    """Return the value. Raises ValueError for what is not JSON, or holds a number that cannot be meant."""
    text = line if isinstance(line, str) else line.decode()
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested without end") from None


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the object that a file holds, {} where there is none. Its text is untrusted."""
    try:
        if path.stat().st_size > _LARGEST:
            return {}
        return read_mapping(loads(path.read_text(encoding="utf-8", errors="replace")))
    except (OSError, ValueError):
        return {}


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is not a finite number")
    return number


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def read_number(value: object) -> float | None:
    """Return a finite number, None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def read_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping, an empty one for all else."""
    return value if isinstance(value, Mapping) else {}


def read_mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; a damaged document has none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
