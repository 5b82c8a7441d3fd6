"""A real run on a real pseudo-terminal: real ranks with real bars of tqdm, seen through an emulator."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyte
import pytest

from launcher.launch.signals import BOUNCE_S
from launcher.rundir.run_id import make_run_id
from tests.launcher.terminal import end_processes

pytestmark = pytest.mark.slow

pytest.importorskip("tqdm")

ROOT = Path(__file__).parents[2]
TRAIN = """
import os, sys, time
from tqdm import tqdm
rank = int(os.environ["RANK"])
print("loading", flush=True)
if rank == 1:
    print("rank one has a slow disk", flush=True)
for epoch in tqdm(range(2), desc="epochs", disable=rank > 0):
    for step in tqdm(range(20), desc="steps", leave=False, disable=rank > 0, mininterval=0, miniters=1):
        time.sleep(0.02)
        while step == 12 and not os.path.exists("{go}"):
            time.sleep(0.02)
        if step % 10 == 9:
            tqdm.write("step %d/40 loss: %.2f" % (epoch * 20 + step + 1, 4.0 / (epoch * 20 + step + 1)))
            sys.stdout.flush()
{end}
print("done", flush=True)
"""


class Seen:
    """The client on a terminal of its own, and all that was ever shown there."""

    def __init__(self, folder: Path, end: str, *options: str) -> None:
        self.go = folder / "go"
        self.home = folder
        (folder / "x.py").write_text(TRAIN.replace("{go}", str(self.go)).replace("{end}", end))
        self.emulator = pyte.HistoryScreen(100, 30, history=5000)
        self.parser = pyte.ByteStream(self.emulator)
        env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        env |= {"XDG_STATE_HOME": str(folder / "state")}
        argv = [sys.executable, "-m", "tests.launcher.terminal_client", make_run_id("r"), "2", "x.py"]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [*argv, *options], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    @property
    def rows(self) -> list[str]:
        gone = ["".join(row[column].data for column in range(len(row))) for row in self.emulator.history.top]
        return [row.rstrip() for row in [*gone, *self.emulator.display] if row.strip()]

    def until(self, done: Callable[[list[str]], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done(self.rows):
            assert time.monotonic() < deadline, "\n".join(self.rows)
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.parser.feed(os.read(self.fd, 65536))
                except OSError:  # the other side has ended
                    assert done(self.rows), "\n".join(self.rows)
                    return

    def end(self) -> tuple[int, list[str]]:
        self.until(lambda rows: any("exit code" in row and "logs:" in row for row in rows))
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status), self.rows

    def close(self) -> None:
        """End what a failed test has left: a run continues without its client."""
        if self.pid:
            os.kill(self.pid, signal.SIGTERM)
            with suppress(AssertionError):
                self.end()
        os.close(self.fd)
        end_processes(self.home)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Seen]]:
    seen: list[Seen] = []

    def start(end: str, *options: str) -> Seen:
        seen.append(Seen(tmp_path, end, *options))
        return seen[-1]

    yield start
    for each in seen:
        each.close()


def going(seen: Seen) -> Seen:
    """Return it, without a pause in its training."""
    seen.go.touch()
    return seen


def test_bars_and_a_status_line_stay_below_and_only_lines_remain(started: Callable[..., Seen]) -> None:
    seen = started("")
    frame = (
        r"\[localhost r0\] epochs:   0%.*\n\[localhost r0\] steps:  60%.*\n"
        r"(start|run) 0:\d\d  step 10/40  loss 0.4  .*(\n.*)?"
    )
    seen.until(lambda rows: re.search(rf"{frame}\Z", "\n".join(rows)) is not None)
    seen.go.touch()
    code, rows = seen.end()
    assert code == 0
    text = "\n".join(rows)
    assert "[localhost r1] rank one has a slow disk" in rows
    assert [row for row in rows if "loss:" in row] == [
        f"[localhost r0] step {step}/40 loss: {4.0 / step:.2f}" for step in (10, 20, 30, 40)
    ]
    assert text.count("epochs:") == 1, "its last state is a line"
    assert "steps:" not in text
    assert text.count("loading") == 1
    assert "6 lines of other ranks repeat what was shown" in text
    assert "loss      0.4 " in text


def test_with_all_ranks_nothing_is_folded(started: Callable[..., Seen]) -> None:
    code, rows = going(started("", "--all-ranks")).end()
    assert code == 0
    assert sum("loss:" in row for row in rows) == 8
    assert sum(row.endswith("loading") for row in rows) == 2


def test_the_traceback_of_a_failing_rank_is_shown_whole(started: Callable[..., Seen]) -> None:
    failing = started("rank and 1 / 0\ntime.sleep(60)")
    code, rows = going(failing).end()
    assert code == 1
    assert any(row.startswith("[localhost r1] ZeroDivisionError") for row in rows)
    assert not any(row.startswith(("run 0:", "end 0:", "start 0:")) for row in rows)


def test_ctrl_c_stops_the_run_and_leaves_a_clean_terminal(started: Callable[..., Seen]) -> None:
    seen = going(started("time.sleep(60)"))
    seen.until(lambda rows: any("step 10/40 loss:" in row for row in rows))
    os.write(seen.fd, b"\x03")
    seen.until(lambda rows: any("or Enter to stay?" in row for row in rows))
    time.sleep(2 * BOUNCE_S)
    os.write(seen.fd, b"\x03")
    code, rows = seen.end()
    assert code == 130
    assert any("Ctrl-C asks: stop, detach or stay; if this terminal closes, the run" in row for row in rows)
    assert any(row.startswith("==> stopping every node") for row in rows)
    assert not any(row.startswith(("run 0:", "end 0:", "start 0:")) for row in rows)
    assert rows[-1].startswith(("==> interrupted: Ctrl-C (exit code 130)", "r-", "gpulaunch-runs"))
    assert seen.emulator.cursor.x == 0


@pytest.mark.parametrize("answer", [b"s\n", b"d\n"])
def test_a_run_that_ends_while_the_question_waits_has_finished(
    started: Callable[..., Seen], answer: bytes
) -> None:
    seen = started("")
    seen.until(lambda rows: any("step 10/40" in row for row in rows))
    os.write(seen.fd, b"\x03")
    seen.until(lambda rows: any("or Enter to stay?" in row for row in rows))
    seen.go.touch()
    deadline = time.monotonic() + 60
    while not any(json.loads(path.read_text())["phase"] == "ended" for path in seen.home.rglob("state.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.write(seen.fd, answer)
    code, rows = seen.end()
    assert code == 0
    assert any(row.startswith("==> finished (exit code 0)") for row in rows)
    assert not any("stopping every node" in row or "the run continues. Come back" in row for row in rows)
    assert not any("asleep" in row for row in rows)


# Far more than is shown, and no more: where this test is killed the run goes on, and would fill the disk.
FLOODS = """
import signal
signal.signal(signal.SIGTERM, signal.{handler})
for _ in range(400):
    sys.stdout.write(("x" * 199 + chr(10)) * 500)
sys.stdout.flush()
time.sleep(120)
"""


@pytest.mark.parametrize(("handler", "presses"), [("SIG_DFL", 2), ("SIG_IGN", 3)])
def test_ctrl_c_ends_a_run_whose_terminal_nobody_reads(
    started: Callable[..., Seen], tmp_path: Path, handler: str, presses: int
) -> None:
    seen = going(started(FLOODS.replace("{handler}", handler), "--all-ranks"))
    seen.until(lambda rows: any("xxxx" in row for row in rows))
    log = next(tmp_path.glob("state/gpulaunch/runs/**/rank-0.log"))
    while log.stat().st_size < 20 << 20:  # much more than was shown; from here on nothing is read
        time.sleep(0.1)
    for _ in range(presses):
        os.write(seen.fd, b"\x03")
        time.sleep(0.5)
    began = time.monotonic()
    while not (ended := os.waitpid(seen.pid, os.WNOHANG))[0]:
        assert time.monotonic() - began < 40.0
        time.sleep(0.1)
    seen.pid = 0
    # The last press may find the interpreter past its handlers: a shell shows 130 for both.
    assert os.waitstatus_to_exitcode(ended[1]) in (130, -signal.SIGINT)
    while json.loads((log.parent / "state.json").read_text())["phase"] != "ended":
        assert time.monotonic() - began < 40.0
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("number", "words", "expected"),
    [(signal.SIGTERM, "(exit code 130)", 130), (signal.SIGHUP, "gpulaunch fetch", 129)],
)
def test_a_signal_is_heeded_at_the_question_of_ctrl_c(
    started: Callable[..., Seen], number: signal.Signals, words: str, expected: int
) -> None:
    seen = going(started("time.sleep(60)"))
    seen.until(lambda rows: any("step 10/40 loss:" in row for row in rows))
    os.write(seen.fd, b"\x03")
    seen.until(lambda rows: any("or Enter to stay?" in row for row in rows))
    os.kill(seen.pid, number)
    seen.until(lambda rows: any(words in row for row in rows))
    _, status = os.waitpid(seen.pid, 0)
    seen.pid = 0
    assert os.waitstatus_to_exitcode(status) == expected


@pytest.mark.parametrize(("leaves_by", "expected"), [("d", 0), ("the terminal's end", 129)])
def test_a_run_goes_on_without_its_terminal(
    started: Callable[..., Seen], tmp_path: Path, leaves_by: str, expected: int
) -> None:
    seen = started("time.sleep(60)")
    seen.until(lambda rows: any("loading" in row for row in rows))
    if leaves_by == "d":
        os.write(seen.fd, b"\x03")
        seen.until(lambda rows: any("or Enter to stay?" in row for row in rows))
        os.write(seen.fd, b"d\n")
        seen.until(lambda rows: any("detached after" in row for row in rows))
        seen.until(lambda rows: any("gpulaunch fetch" in row for row in rows))
    else:
        os.close(seen.fd)
        seen.fd = os.open(os.devnull, os.O_RDWR)
    _, status = os.waitpid(seen.pid, 0)
    assert os.waitstatus_to_exitcode(status) == expected
    (run_dir,) = (tmp_path / "state" / "gpulaunch" / "runs").glob("*/r-*")
    state = json.loads((run_dir / "state.json").read_text())
    try:
        assert state["phase"] == "running"
        assert (run_dir / "detached").exists()
        assert not (tmp_path / "gpulaunch-runs" / run_dir.name / "outcome.json").exists()
    finally:
        seen.pid = 0
        os.kill(state["supervisor"][0], signal.SIGTERM)
