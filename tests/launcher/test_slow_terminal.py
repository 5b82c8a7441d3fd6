"""A terminal or pipe that is read slowly, or not at all, holds up nothing once a run is to end."""

import os
import pty
import select
import time
import tty
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from launcher.terminal.live_screen import LiveScreen
from launcher.terminal.outlet import Outlet
from launcher.terminal.screen import END_LINES, Screen

pytestmark = pytest.mark.slow

FLOOD = b"x" * 99 + b"\n"
LINES = 20_000


class Slow:
    """A pseudo-terminal or a pipe, and what was read from it."""

    def __init__(self, kind: str) -> None:
        self.reader, writer = pty.openpty() if kind == "terminal" else os.pipe()
        if kind == "terminal":
            tty.setraw(self.reader)
        self.stream: TextIO = os.fdopen(writer, "w", encoding="utf-8")
        self.text = b""

    def read(self, limit: int = 1 << 30) -> bytes:
        """Read what is there, up to a limit."""
        while len(self.text) < limit and select.select([self.reader], [], [], 0.05)[0]:
            data = os.read(self.reader, 1 << 16)
            if not data:
                break
            self.text += data
        return self.text

    def close(self) -> None:
        with suppress(OSError):
            self.stream.close()
        os.close(self.reader)


@pytest.fixture(params=["terminal", "pipe"])
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setenv("TERM", "xterm")
    found = Slow(request.param)
    yield found
    found.close()


def screen_of(slow: Slow) -> Screen:
    return LiveScreen(slow.stream, size=lambda: (120, 30)) if slow.stream.isatty() else Screen(slow.stream)


def test_the_shells_own_opening_stays_as_it_was(slow: Slow) -> None:
    outlet = Outlet(slow.stream)
    assert outlet.write("hello\n")
    assert os.get_blocking(slow.stream.fileno())
    assert slow.read() == b"hello\n"


def test_a_write_is_given_up_for_what_is_more_urgent(slow: Slow) -> None:
    outlet = Outlet(slow.stream)
    times: list[float] = []

    def urgent() -> str:
        times.append(time.monotonic())
        return "Ctrl-C" if len(times) > 2 else ""

    outlet.urgent = urgent
    assert not outlet.write((FLOOD * LINES).decode())
    assert len(times) == 3
    slow.read()
    outlet.urgent = lambda: ""
    assert outlet.write("next\n")
    assert slow.read().endswith(b"\nnext\n")  # on a line of its own


def test_patience_is_for_all_writes_together(slow: Slow) -> None:
    outlet = Outlet(slow.stream)
    outlet.patience_s = 1.0
    began = time.monotonic()
    assert not any([outlet.write((FLOOD * LINES).decode()) for _ in range(40)][1:])
    assert time.monotonic() - began < 20.0  # a patience for each would take 40 s


def test_a_fast_reader_gets_all_of_it_in_order(slow: Slow) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            outlet = Outlet(slow.stream)
            done = all(outlet.write(f"{number}\n" * 1000) for number in range(100))
        finally:
            os._exit(0 if done else 1)
    expected = b"".join(b"%d\n" % number * 1000 for number in range(100))
    while len(slow.read()) < len(expected):
        pass
    assert os.waitpid(pid, 0)[1] == 0
    assert slow.text == expected


def test_a_closed_terminal_is_as_the_stream_says() -> None:
    slow = Slow("terminal")
    outlet = Outlet(slow.stream)
    os.close(slow.reader)
    with pytest.raises(OSError, match="Input/output error"):
        outlet.write("x")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, slow.stream.fileno())
    os.close(nowhere)
    assert outlet.write("x")
    slow.stream.close()


def test_on_a_closed_terminal_nothing_is_painted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    slow = Slow("terminal")
    screen = screen_of(slow)
    screen.output("a", "rank-0.log", b"before\n", 0.0)
    screen.tick(0.0)
    os.close(slow.reader)
    after = os.open(tmp_path / "after", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="Input/output error"):
        screen.notify("the terminal is gone")
    os.dup2(after, slow.stream.fileno())
    os.close(after)
    for turn in range(20):
        screen.output("a", "rank-0.log", FLOOD * LINES, float(turn))
        screen.tick(float(turn))
    screen.finish()
    assert screen.is_closed
    assert b"xxx" not in (tmp_path / "after").read_bytes()
    slow.stream.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_once_a_run_is_to_end_the_end_of_its_logs_is_shown(
    slow: Slow,
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("launcher.terminal.screen.STOPPING_PATIENCE_S", 0.3)
    monkeypatch.setattr("launcher.terminal.screen.ENDS_PATIENCE_S", 0.3)
    screen = screen_of(slow)
    screen.stop(at_once=at_once)
    began = time.monotonic()
    for turn in range(20):
        screen.output("a", "rank-0.log", FLOOD * LINES, float(turn))
        screen.tick(float(turn))
    screen.notify("every rank has ended")
    screen.finish()
    assert time.monotonic() - began < 10.0
    shown = len(slow.read())
    assert shown < 1 << 20
    screen.show_ends(lambda _host, _log, count: [f"line {number}" for number in range(count)])
    end = slow.read()[shown:].decode()
    assert "==>" in end or "every rank has ended" in slow.text.decode()
    assert "not all of a/rank-0.log was shown; it ends with:" in end
    assert f"line {END_LINES - 1}" in end


def test_a_terminal_that_keeps_up_gets_every_line_to_the_end(slow: Slow) -> None:
    screen = screen_of(slow)
    screen.stop()
    for turn in range(5):
        screen.output("a", "rank-0.log", b"step %d\n" % turn, float(turn))
        screen.tick(float(turn))
        slow.read()
    screen.finish()
    screen.show_ends(lambda *_: ["never asked"])
    text = slow.read().decode()
    assert all(f"step {turn}" in text for turn in range(5))
    assert "not all" not in text
