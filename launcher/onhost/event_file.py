"""Events of a run as its host writes and reads them; a script may write some too. Python >= 3.9."""

import json
import os
import time
from typing import Any, Iterator

EVENTS = "events.jsonl"
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What the fields of an event raise, where they are used, that no part of gpulaunch has written."""
LONGEST = 1 << 20  # bytes of a line; none of ours is a third as long
MOST = 256 << 10  # bytes at once, so that a script which writes without end delays no stop


def append_event(path: str, name: str, /, **fields: object) -> None:
    """Add an event to an events.jsonl, in one write. Raises OSError."""
    append_line(path, encode_event(name, fields))


def append_line(path: str, line: bytes) -> None:
    """Add a line to a file in one write. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)


def encode_event(name: str, fields: dict[str, object]) -> bytes:
    """Return an event as a line, with the current time."""
    line = {"event": name, "t": time.time(), "m": time.monotonic(), **fields}
    return json.dumps(line, default=str).encode() + b"\n"


def read_step(run_dir: str, rank: object) -> int | None:
    """Return the optimizer steps that the guard has counted in a rank, None where it counts none."""
    try:
        with open(os.path.join(run_dir, "steps-rank-%s" % rank), "rb") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


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
