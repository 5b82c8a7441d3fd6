"""Writes to people whose terminal or pipe may be slow: a write can be given up for something more urgent.

A blocking write to a terminal that is not read holds up everything, Ctrl-C too. So we open the terminal
again without blocking, and leave alone the opening that the shell shares.
"""

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from launcher.terminal.output import FULL_ERRNOS, echo
from launcher.text import can_redraw

_TURN_MS = 50  # how often a write that waits looks for what is more urgent
_PIECE = 1 << 16
_NO_ROOM_S = 0.01
_SMALL_PIECE = 512  # POSIX's least PIPE_BUF: a pipe that is ready takes as much without blocking


class Outlet:
    """A stream. `urgent`: for what a write is given up ("": nothing); `patience_s`: how long it may wait."""

    def __init__(self, stream: TextIO) -> None:
        self.urgent: Callable[[], str] = lambda: ""
        self.patience_s = float("inf")
        self._stream = stream
        self._fd, self._piece = _opened(stream)
        self._broken = False
        self.is_closed = False  # a terminal: what is written from now on is lost
        self.is_full = False  # a disk, and what was written to it is not complete
        self._end = "\x1b[0m\n" if can_redraw(stream) else "\n"

    def write(self, text: str) -> bool:
        """Write it; return False where the rest of it was given up."""
        if self._fd < 0:
            self._to_file(text)
            return True
        self._stream.flush()
        if self._broken:
            text = f"{self._end}{text}"  # what was given up ended anywhere, in a colour too
        encoding = self._stream.encoding or "utf-8"
        self._broken = not self._write(memoryview(text.encode(encoding, "backslashreplace")))
        return not self._broken

    def _write(self, view: memoryview) -> bool:
        while view:
            if self._must_wait() and not self._wait():
                return False
            try:
                view = view[os.write(self._fd, view[: self._piece]) :]
            except BlockingIOError:  # a terminal with room for one character says so of a line's end too
                time.sleep(_NO_ROOM_S)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self._close()  # the terminal was closed; what the stream leads to now may be something else
                self.is_closed = True
                self._stream.write(bytes(view).decode(self._stream.encoding or "utf-8", "replace"))
                self._stream.flush()
                return True
        return True

    def _to_file(self, text: str) -> None:
        """Write to a file; one on a disk that is full loses this, and ends no run."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            if error.errno not in FULL_ERRNOS:
                raise
            self._discard()
            if not self.is_full:
                self.is_full = True
                with suppress(OSError):
                    echo(
                        f"what is shown cannot be written any more ({error.strerror}); gpulaunch continues",
                        err=True,
                    )

    def _discard(self) -> None:
        """Drop what the stream still holds, or its last flush would fail and hide the run's exit code."""
        fd = self._stream.fileno()
        kept, nowhere = os.dup(fd), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, fd)
            self._stream.flush()
        finally:
            os.dup2(kept, fd)
            os.close(kept)
            os.close(nowhere)

    def _must_wait(self, turn_ms: int = 0) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return not poll.poll(turn_ms)

    def _wait(self) -> bool:
        """Wait until there is room; return False where something is more urgent, or patience has ended."""
        began = time.monotonic()
        while not self.urgent() and self.patience_s > 0:
            ready = not self._must_wait(_TURN_MS)
            now = time.monotonic()
            self.patience_s -= now - began
            began = now
            if ready:
                return True
        return False

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        with suppress(OSError):
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._close()


def _opened(stream: TextIO) -> tuple[int, int]:
    """Return a descriptor of our own and how much is written to it at once; -1: the stream is used."""
    try:
        fd = stream.fileno()
        kind = os.fstat(fd).st_mode
    except (OSError, ValueError):  # no file: a test, a program that has us in it
        return -1, 0
    if not (os.isatty(fd) or stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return -1, 0  # files and /dev/null never block
    for name in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
        with suppress(OSError):
            own = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            if not os.get_blocking(own):
                return own, _PIECE
            os.close(own)  # macOS gives the same opening again
    return os.dup(fd), _SMALL_PIECE
