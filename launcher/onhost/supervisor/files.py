"""Writes to files that other processes read meanwhile: atomic replacement, or one write per line."""

import contextlib
import errno
import json
import os
import time
from typing import Any

CHUNK = 256 << 10
RESERVE, RESERVE_BYTES = "reserve", 64 << 10  # kept back from a run's start to its end, for its last state
PROBE_BYTES = 8 << 10  # more than what is left of a log's last block


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of the data, however long it takes. Raises OSError when the other side is gone."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_file(path: str, data: str, *, lasts: bool = True) -> None:
    """Replace a file atomically; `lasts`: after a crash of the host, too. Raises OSError."""
    fresh = "%s.%d.new" % (path, os.getpid())
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(fd, data.encode("utf-8", "surrogateescape"))
            if lasts:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
    except OSError:  # a full disk keeps no half of it
        os.unlink(fresh)
        raise


def write_over(path: str, data: str, *, lasts: bool = True) -> None:
    """Replace a file's content in its own blocks, as on a full disk; `lasts`: as above. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_all(fd, data.encode())
        os.ftruncate(fd, len(data.encode()))
        if lasts:
            os.fsync(fd)
    finally:
        os.close(fd)


def explain_full_disk(directory: str) -> str:
    """Return why the disk of a directory takes no more data, "" where it does. Quotas fill, too."""
    probe = os.path.join(directory, "probe")
    try:
        write_file(probe, "\0" * PROBE_BYTES)
        os.unlink(probe)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "%s: [Errno %d] %s" % (directory, error.errno, os.strerror(error.errno))
    return ""


def reserve_space(run_dir: str) -> None:
    """Keep disk space back. Raises OSError where the disk has none left."""
    write_file(os.path.join(run_dir, RESERVE), "\0" * RESERVE_BYTES)


def free_space(run_dir: str) -> None:
    """Give it back."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(run_dir, RESERVE))


def write_time(path: str) -> None:
    """Replace a file by the host's monotonic time; where a full disk has no room, write it in place.

    The file has its block already. A reader that meets one in place may be wrong by parts of a second:
    eight digits before the point are one word of memory. Raises OSError.
    """
    now = "%012.3f" % time.monotonic()
    try:
        write_file(path, now, lasts=False)
    except OSError:
        write_over(path, now, lasts=False)


def read_age(path: str) -> float | None:
    """Return the seconds since `write_time`, None when unknown."""
    try:
        with open(path) as file:
            return time.monotonic() - float(file.read())
    except (OSError, ValueError):
        return None


def read_json(path: str) -> dict[str, Any] | None:
    """Return a JSON file, None when it is absent or broken."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_tail(path: str, count: int) -> str:
    """Return the last bytes of a file as text."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count).decode("utf-8", "replace")
    except OSError:
        return ""
