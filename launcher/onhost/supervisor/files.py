"""Writes to files that other processes read meanwhile: atomic replacement, or one write per line."""

import json
import os
from typing import Any

CHUNK = 256 << 10


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of the data, however long it takes. Raises OSError when the other side is gone."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_file(path: str, data: str) -> None:
    """Replace a file atomically: after a crash it has the old content or the new, never half of it."""
    fresh = "%s.%d.new" % (path, os.getpid())
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data.encode("utf-8", "surrogateescape"))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(fresh, path)


def read_json(path: str) -> dict[str, Any] | None:
    """Return a JSON file, None when it is absent or broken."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def append_line(path: str, line: dict[str, object]) -> None:
    """Add one line to a file in one write. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)


def read_tail(path: str, count: int) -> str:
    """Return the last bytes of a file as text."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count).decode("utf-8", "replace")
    except OSError:
        return ""
