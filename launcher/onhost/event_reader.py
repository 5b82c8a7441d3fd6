"""Events of a run as its host reads them: a script may write to events.jsonl too, whatever it likes.

Standard library, Python >= 3.9.
"""

import json
import os
from typing import Any, Iterator

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What the fields of an event raise, where they are used, that no part of gpulaunch has written."""
LONGEST = 1 << 20  # bytes of a line; none of ours is a third as long
MOST = 256 << 10  # bytes at once, so that a script which writes without end delays no stop


def parse_event(line: bytes | str) -> dict[str, Any]:
    """Return an event, empty for any other line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class EventReader:
    """Reader of the events that are added to an open file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def read_new(self) -> Iterator[dict[str, Any]]:
        """Yield the events added since the last call, at most those in MOST bytes."""
        for _ in range(0, MOST, 1 << 16):
            data = os.read(self._fd, 1 << 16)
            if not data:
                return
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest[-LONGEST:]
            yield from (event for line in lines if (event := parse_event(line)))
