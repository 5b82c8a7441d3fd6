"""The whole terminal, taken and given back: single keys, the alternate screen, and no trace of them later."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

from launcher.terminal.bottom_area import read_size
from launcher.terminal.cell_width import Painted, paint_line
from launcher.terminal.outlet import Outlet
from launcher.text import can_redraw, supports_color
from launcher.top.table import Line
from preflight import regex as re

_CODES = {
    "up": (b"\x1b[A", b"\x1bOA", b"k"),
    "down": (b"\x1b[B", b"\x1bOB", b"j"),
    "page-up": (b"\x1b[5~",),
    "page-down": (b"\x1b[6~",),
    "home": (b"\x1b[H", b"\x1bOH", b"\x1b[1~"),
    "end": (b"\x1b[F", b"\x1bOF", b"\x1b[4~"),
    "enter": (b"\r", b"\n"),
    "escape": (b"\x1b",),
    "space": (b" ",),
}
_NAMED = {code: name for name, codes in _CODES.items() for code in codes}
_KEY = re.compile(rb"\x1b\[[0-9;]{0,16}[A-Za-z~]|\x1bO[A-Za-z]|\x1b\[[0-9;]{0,16}|[\x00-\xff]", re.DOTALL)


def decode_keys(data: bytes) -> list[str]:
    """Return the keys in what one read gave: special ones by name, else the character."""
    keys = []
    for match in _KEY.finditer(data):
        name = _NAMED.get(match[0])
        if name is None and len(match[0]) == 1 and match[0].isascii() and match[0].decode().isprintable():
            name = match[0].decode()
        if name:
            keys.append(name)
    return keys


_ENTER = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?7h\x1b[{lines};1H\n\x1b[?1049l"
"""A terminal without an alternate screen, which ignores its code, continues below what was shown."""
_ENDING = (signal.SIGINT, signal.SIGTERM)
_SLOW_S = 5.0  # how long a terminal that is not read may hold up the end


class TerminalClosed(Exception):
    """The terminal is closed: no reader, no keys."""


class FullScreen:
    """A terminal in raw mode on its alternate screen. `take_terminal` always gives it back."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._source = source.fileno()
        self._target = target
        self._outlet = Outlet(target)
        self._colour = supports_color(target)
        self._before: list[Any] | None = None
        self._shown: list[Painted] = []
        self._size = (0, 0)
        self._wake, self._wake_write = os.pipe()
        for fd in (self._wake, self._wake_write):
            os.set_blocking(fd, False)

    @property
    def size(self) -> tuple[int, int]:
        """Columns that may be used (the last one stays empty) and lines."""
        columns, lines = read_size(self._target)
        return max(1, columns - 1), max(1, lines)

    @contextmanager
    def take_terminal(self) -> Iterator[None]:
        """Take the terminal; SIGTERM ends as Ctrl-C does. Raises KeyboardInterrupt for both."""
        handlers = {signal.SIGTERM: _interrupt, signal.SIGWINCH: _nothing, signal.SIGTSTP: self._suspend}
        former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wakeup = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            self._enter()
            yield
        finally:
            for number in _ENDING:  # what is impatient must not leave half a terminal
                former.setdefault(number, signal.getsignal(number))
                signal.signal(number, signal.SIG_IGN)
            self._leave()
            signal.set_wakeup_fd(wakeup)
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def lend_terminal(self) -> Iterator[None]:
        """Give the terminal to a dialog for a while."""
        self._leave()
        yield
        self._enter()  # after an error nothing is drawn any more

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines from the top, and nothing below them. Only lines that have changed are written."""
        size = self.size
        painted = [paint_line(line, colour=self._colour) for line in lines[: size[1]]]
        text = "" if size == self._size else "\x1b[2J"
        before = self._shown if size == self._size else []
        for at, line in enumerate(painted):
            if at >= len(before) or before[at] != line:
                text += f"\x1b[{at + 1};1H{line}\x1b[K"
        if len(before) > len(painted):
            text += f"\x1b[{len(painted) + 1};1H\x1b[J"
        whole = not text or self._outlet.write(text)
        self._shown, self._size = (painted, size) if whole else ([], (0, 0))

    def read_keys(self, timeout_s: float) -> list[str]:
        """Return pressed keys, () after `timeout_s` or for a new size. Raises TerminalClosed."""
        ready, _, _ = select.select([self._source, self._wake], [], [], max(0.0, timeout_s))
        if self._wake in ready:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if self._source not in ready:
            return []
        try:
            data = os.read(self._source, 1024)
        except OSError as error:
            raise TerminalClosed from error
        if not data:
            raise TerminalClosed
        return decode_keys(data)

    def wake(self) -> None:
        """Let `read_keys` return now; from any thread."""
        with suppress(OSError):
            os.write(self._wake_write, b"\0")

    def _enter(self) -> None:
        self._before = termios.tcgetattr(self._source)
        tty.setcbreak(self._source, termios.TCSADRAIN)
        self._shown, self._size = [], (0, 0)
        self._outlet.write(_ENTER)

    def _leave(self) -> None:
        if self._before is None:
            return
        self._outlet.patience_s = _SLOW_S
        with suppress(OSError):
            self._outlet.write(_LEAVE.format(lines=self.size[1]))
        self._outlet.patience_s = float("inf")
        with suppress(termios.error):
            termios.tcsetattr(self._source, termios.TCSADRAIN, self._before)
        self._before = None

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, and we take it again with `fg`."""
        del number, frame
        was_taken = self._before is not None
        self._leave()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        if was_taken:
            self._enter()


def can_take_terminal() -> bool:
    """Return whether a person sits at a terminal that can show a whole screen."""
    return sys.stdin.isatty() and can_redraw(sys.stdout)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _nothing(number: int, frame: FrameType | None) -> None:
    """Take a signal only so that it wakes the loop."""
    del number, frame
