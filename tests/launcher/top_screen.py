"""`gpulaunch top` on a pseudo-terminal of its own: what it shows, and keys pressed."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyte

from tests.launcher.terminal import CHECKOUT

ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?25h\x1b[?7h"


class Seen:
    """`gpulaunch top` on a terminal of its own."""

    def __init__(
        self, home: Path, env: Mapping[str, str], *words: str, size: tuple[int, int] = (20, 120)
    ) -> None:
        lines, columns = size
        self.emulator = pyte.Screen(columns, lines)
        self.parser = pyte.ByteStream(self.emulator)
        self.raw = b""
        keep = {"XDG_STATE_HOME": "", **env, "TERM": "xterm", "HOME": str(home), "PYTHONPATH": str(CHECKOUT)}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            os.execve(sys.executable, [sys.executable, "-m", "launcher.cli", "top", *words], keep)
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.fd)

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.emulator.resize(lines, columns)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.emulator.display)

    def until(self, words: str, timeout_s: float = 30.0, *, declines: bool = False) -> None:
        """Wait until it is shown. `declines`: to end what another test may have left on this machine."""
        deadline = time.monotonic() + timeout_s
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            self.read()
            if declines and "[y/N]" in self.text:
                declines = False
                self.press("n\n")

    def read(self) -> None:
        if select.select([self.fd], [], [], 0.1)[0]:
            with suppress(OSError):  # the far end has gone
                data = os.read(self.fd, 65536)
                self.raw += data
                self.parser.feed(data)

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def show(self, keys: str, *words: str) -> None:
        """Type keys, and wait until all of these words are shown."""
        self.press(keys)
        for each in words:
            self.until(each)

    def end(self) -> int:
        """Wait for the end; return the exit code. The terminal must be as it was."""
        deadline = time.monotonic() + 20
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            assert time.monotonic() < deadline, self.text
            self.read()
        self.pid = 0
        self.read()
        assert self.raw.count(ALTERNATE) == self.raw.count(NORMAL) > 0
        assert self.raw.rindex(NORMAL) > self.raw.rindex(ALTERNATE)
        assert termios.tcgetattr(self.fd) == self.before
        return os.waitstatus_to_exitcode(ended[1])

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
