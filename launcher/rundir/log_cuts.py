"""Where the present bytes of a host's log are in its local copy, which keeps what was before a cut.

`log-cuts.jsonl` beside the directories of the hosts has a line for each cut that a client has seen: the log
as HOST/NAME, and where the bytes after the cut start locally. By it, clients that share a directory put each
byte into the same place, and a later one knows how much it has of the log on the host.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from launcher import safe_json
from launcher.errors import PathRefused
from launcher.local.safe_paths import join_below, open_below

LOG_CUTS = "log-cuts.jsonl"
END_BYTES = 32  # by which a host knows its log again (launcher/onhost/supervisor/requests/_logs.py)


def read_starts(directory: Path) -> Mapping[str, int]:
    """Return where the present bytes of each log start that was cut, by HOST/NAME; all others start at 0."""
    try:
        return _newest(join_below(directory, LOG_CUTS).read_bytes())
    except (OSError, PathRefused):
        return {}


def read_end(path: Path, start: int, size: int) -> bytes:
    """Return the last bytes of a local log, which another client may add to, from `start`; b"" unread."""
    count = min(size, END_BYTES)
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(fd, count, start + size - count)
        finally:
            os.close(fd)
    return b""


def add_cut(directory: Path, name: str, known: int, end: int) -> int:
    """Record a cut of a log whose bytes started at `known` and ended at `end` or later; return the new start.

    Another client may have recorded it before: its word counts. A disk that is full keeps no record.
    """
    with suppress(OSError, PathRefused):
        fd = open_below(directory, LOG_CUTS, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            start = _newest(file.read()).get(name, 0)
            if start > known:
                return start
            with suppress(OSError):
                end = max(end, join_below(directory, name).stat().st_size)
            file.write(json.dumps({"log": name, "start": end}).encode() + b"\n")
    return end


def _newest(lines: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines.splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            cut = safe_json.loads(line)
            found[str(cut["log"])] = max(0, int(cut["start"]))
    return found
