"""New content of a run's logs for a follower, from a byte offset for each."""

import contextlib
import errno
import os
import re
import stat
import time
from typing import Any, Iterator

from ...event_file import EVENTS, MALFORMED, parse_event
from ..files import CHUNK
from ..protocol import encode_frame
from ..run_dir import RECENT, RECENT_BEFORE, SIZES, USAGE, log_sizes
from ._digest import HeldLogs

LINES = (EVENTS, USAGE)  # sent in complete lines only
END_BYTES = 32
GROWING = re.compile(r"(?:launcher|rank-[0-9]+)\.log")
"""Logs that are only ever appended to; a file that a script calls .log may be changed in place."""


class LogReader:
    """Offset in each log, and the next bytes of all of them."""

    def __init__(self, run_dir: str, request: dict[str, Any]) -> None:
        self._run_dir = run_dir
        self._only: list[str] | None = request.get("only")
        self._files: dict[str, int] = {}
        self._digests = HeldLogs() if request.get("digest") else None
        self.once = bool(request.get("once"))  # only the current content, however fast the log grows
        self._limits = log_sizes(run_dir) if self.once else {}
        self._offsets = {name: int(offset) for name, offset in request.get("offsets", {}).items()}
        if "since" in request:
            self._offsets = {**find_offsets(run_dir, request["since"]), **self._offsets}
        ends = request.get("ends", {}).items()
        self._ends = {name: bytes.fromhex(end) for name, end in ends if GROWING.fullmatch(name)}

    def read_new(self, *, final: bool) -> memoryview:
        """Return the next bytes of every log, as frames; `final`: nothing is written any more."""
        self._open_new()
        self._follow_events()
        parts = []
        for name, fd in self._files.items():
            if self._digests is not None and self._digests.holds(name):
                self._digests.read(name, fd, final=final)
                continue
            offset = self._offsets.get(name, 0)
            end = self._ends.get(name, b"")  # of what was sent, before the offset
            is_cut = name not in LINES and is_cut_at(fd, offset, end)
            if is_cut:
                offset, end = 0, b""  # by logrotate or another process: its writers append, at its new start
            room = min(CHUNK, self._limits.get(name, 0) - offset) if self.once else CHUNK
            data = os.pread(fd, room, offset) if room > 0 else b""
            if name in LINES and len(data) < CHUNK:  # a longer line is a script's own, and comes in parts
                data = data[: data.rfind(b"\n") + 1]
            if data:
                cut = {"cut": True} if is_cut else {}
                parts.append(encode_frame({"log": name, "offset": offset, "size": len(data), **cut}, data))
                self._offsets[name] = offset + len(data)
                if GROWING.fullmatch(name):
                    self._ends[name] = (end + data)[-END_BYTES:]
            if self._digests is not None and name == EVENTS:
                self._digests.on_events(data)
        if self._digests is not None and (said := self._digests.take(final=final)):
            parts.append(encode_frame({"digest": said, "t": time.time()}))
        return memoryview(b"".join(parts))

    def _open_new(self) -> None:
        try:
            names = sorted(os.listdir(self._run_dir))
        except OSError:
            return  # the directory was deleted: open files can still be read
        for name in names:
            if name not in self._files and self._wanted(name):
                with contextlib.suppress(OSError):
                    self._files[name] = open_regular(os.path.join(self._run_dir, name))

    def _follow_events(self) -> None:
        """Switch to the restored events file, which has the same start, after the directory was deleted."""
        path = os.path.join(self._run_dir, EVENTS)
        with contextlib.suppress(OSError):
            if EVENTS in self._files and not os.path.samestat(os.stat(path), os.fstat(self._files[EVENTS])):
                fresh = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                os.close(self._files[EVENTS])
                self._files[EVENTS] = fresh

    def _wanted(self, name: str) -> bool:
        if self._only is not None:
            return name in self._only
        return name in LINES or name.endswith(".log")


def is_cut_at(fd: int, offset: int, end: bytes) -> bool:
    """Return whether a log no longer has what was read of it up to an offset, the last of which is `end`.

    One that was cut and has grown beyond the offset since is known by these bytes alone. Raises OSError.
    """
    size = os.fstat(fd).st_size
    return size < offset or (size > offset and os.pread(fd, len(end), offset - len(end)) != end)


def open_regular(path: str) -> int:
    """Open a regular file; what else a script may call .log has no end, or blocks. Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def find_offsets(run_dir: str, since: dict[str, float]) -> dict[str, int]:
    """Return the offset in each log from which to send the requested part.

    `since` is {"bytes": n} (from a line's start), {"lines": n}, or {"seconds": n} (from some earlier line).
    """
    now = log_sizes(run_dir)
    if "lines" in since:
        return {name: find_last_lines(run_dir, name, size, int(since["lines"])) for name, size in now.items()}
    if "bytes" in since:
        return {
            name: find_line_start(run_dir, name, size - int(since["bytes"])) for name, size in now.items()
        }
    begin = time.time() - float(since["seconds"])
    before: dict[str, int] = {}
    latest = 0.0
    for at, sizes in read_noted_sizes(run_dir):
        if latest <= at <= begin:
            latest, before = at, sizes
    return before


def find_last_lines(run_dir: str, name: str, size: int, lines: int) -> int:
    """Return the offset of the last n lines, an unfinished one too, in a log's first `size` bytes."""
    if lines == 0:
        return size
    at, found = size, 0
    try:
        with open(os.path.join(run_dir, name), "rb") as file:
            while at > 0:
                begin = max(0, at - CHUNK)
                file.seek(begin)
                block = file.read(at - begin)
                end = len(block) - 1 if at == size and block.endswith(b"\n") else len(block)
                while (newline := block.rfind(b"\n", 0, end)) >= 0:
                    found += 1
                    if found >= lines:
                        return begin + newline + 1
                    end = newline
                at = begin
    except OSError:
        return size
    return 0


def read_noted_sizes(run_dir: str) -> Iterator[tuple[float, dict[str, int]]]:
    """Yield the recorded (time, sizes) of the logs."""
    for name in (SIZES, RECENT_BEFORE, RECENT):
        with contextlib.suppress(OSError), open(os.path.join(run_dir, name), "rb") as file:
            for line in file:
                noted = parse_event(line)
                with contextlib.suppress(*MALFORMED):
                    yield float(noted["t"]), {str(log): int(size) for log, size in noted["sizes"].items()}


def find_line_start(run_dir: str, name: str, offset: int) -> int:
    """Return the start of the first complete line at or after an offset; a long line is cut."""
    if offset <= 0:
        return 0
    try:
        with open(os.path.join(run_dir, name), "rb") as file:
            file.seek(offset - 1)
            found = file.read(4096).find(b"\n")
    except OSError:
        return offset
    return offset + found if found >= 0 else offset
