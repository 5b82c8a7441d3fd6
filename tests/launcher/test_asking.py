"""What a person is asked at a terminal, and what each answer does: attach, rm, prune, stop; real ptys."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.terminal import Home, Terminal

LONG = """
import time
print("up", flush=True)
for n in range(9999):
    print("line", n, flush=True)
    time.sleep(0.1)
"""
SHORT = "print('up', flush=True)\n"
STUBBORN = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(99)\n"
CTRL_C, CTRL_D = "\x03", "\x04"
QUESTION = "[d]etach and let the run go on, [s]top the run, or Enter to stay?"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.end_all()


def ended(home: Home, run_id: str = "r-1") -> None:
    deadline = time.monotonic() + 20
    while home.phase(run_id) != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("keys", "words"), [("d\n", "d"), (CTRL_C, "Ctrl-C again"), (CTRL_D, "Ctrl-D")])
def test_attach_is_left_and_the_run_goes_on(home: Home, keys: str, words: str) -> None:
    home.launch(LONG)
    attached = Terminal(home, "attach", "r-1")
    attached.until("] line ")
    attached.press(CTRL_C)
    attached.until(QUESTION)
    attached.press(keys)
    code, screen = attached.end()
    assert code == 0, screen
    assert "detached; the run goes on. Come back with: gpulaunch attach r-1" in screen
    assert home.phase() == "running"


def test_attach_stays_at_enter_and_stops_the_run_at_s(home: Home) -> None:
    home.launch(LONG)
    attached = Terminal(home, "attach", "last")
    attached.until("] line ")
    for times, answer in enumerate(("\n", "c\n"), 1):
        attached.press(CTRL_C)
        attached.until(QUESTION, times)
        attached.press(answer)
        shown = attached.screen.count(b"] line ")
        attached.until("] line ", shown + 3)
    attached.press(CTRL_C)
    attached.until(QUESTION, 3)
    attached.press("s\n")
    code, screen = attached.end()
    assert code == 130, screen
    assert "stopping every node" in screen
    assert "no process of the run is left on any host" in screen
    assert home.phase() == "ended"


def test_rm_asks_and_deletes_only_after_a_yes(home: Home) -> None:
    home.launch(SHORT)
    ended(home)
    asked = home.gpulaunch("rm", "r-1")
    assert (asked.returncode, home.runs.joinpath("r-1").exists()) == (2, True)
    assert "use --yes in scripts" in asked.stderr
    for answer, expected in (("n\n", 1), ("\n", 1), (CTRL_C, 130)):
        terminal = Terminal(home, "rm", "r-1")
        terminal.until("Delete its logs and records on the hosts? [y/N]:")
        terminal.press(answer)
        code, screen = terminal.end()
        assert code == expected, screen
        assert ("nothing was deleted" in screen) is (expected == 1)
        assert home.runs.joinpath("r-1").exists()
    terminal = Terminal(home, "rm", "r-1")
    terminal.until("[y/N]:")
    terminal.press("y\n")
    code, screen = terminal.end()
    assert code == 0, screen
    assert "r-1: removed from 1 host" in screen
    assert not home.runs.joinpath("r-1").exists()


def test_prune_deletes_what_ended_long_ago_and_nothing_else(home: Home) -> None:
    home.launch(SHORT, "old-1")
    home.launch(SHORT, "old-2")
    home.launch(SHORT, "new-1")
    home.launch(LONG, "alive-1")
    home.launch(SHORT, "lost-1")
    for run_id in ("old-1", "old-2", "new-1", "lost-1"):
        ended(home, run_id)
    for run_id in ("old-1", "old-2"):
        _change(home, run_id, ended=time.time() - 40 * 86400)
    _change(home, "alive-1", started=time.time() - 40 * 86400)
    _change(home, "lost-1", phase="running", ended=None, started=time.time() - 40 * 86400)

    refused = home.gpulaunch("prune")
    assert refused.returncode == 2, refused.stdout
    terminal = Terminal(home, "prune")
    terminal.until("Delete the logs and records of these 2 runs on the hosts? [y/N]:")
    terminal.press("y\n")
    code, screen = terminal.end()
    assert code == 0, screen
    assert {path.name for path in home.runs.iterdir()} == {"new-1", "alive-1", "lost-1"}
    again = home.gpulaunch("prune", "--yes")
    assert (again.returncode, again.stdout) == (0, "no run ended more than 30d ago\n")
    assert home.gpulaunch("prune", "--yes", "--older-than", "0s").returncode == 0
    assert {path.name for path in home.runs.iterdir()} == {"alive-1", "lost-1"}
    wrong = home.gpulaunch("prune", "--older-than", "soon")
    assert wrong.returncode == 2
    assert "--older-than 30d" in wrong.stderr
    assert "--since" not in wrong.stderr


def _change(home: Home, run_id: str, **values: object) -> None:
    path = home.runs / run_id / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_stop_now_gives_no_grace(home: Home) -> None:
    home.launch(STUBBORN)
    began = time.monotonic()
    done = home.gpulaunch("stop", "r-1", "--now")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 15  # the default grace is 30 s, and this rank ignores SIGTERM
    assert "localhost: ended (rank 0: -9)" in done.stdout
    assert "r-1 has ended on every node; nothing of it is left" in done.stdout
    again = home.gpulaunch("stop", "r-1")
    assert (again.returncode, "localhost: ended" in again.stdout) == (0, True), again.stderr


def test_logs_of_a_run_that_goes_on_end_with_ctrl_c_and_the_run_does_not(home: Home) -> None:
    home.launch(LONG)
    logs = Terminal(home, "logs", "-f", "r-1")
    logs.until("] line 3\r\n")
    logs.press(CTRL_C)
    code, screen = logs.end()
    assert code == 0, screen
    assert home.phase() == "running"
    raw = home.gpulaunch("logs", "r-1", "--rank", "0").stdout
    assert re.match(r"up\nline 0\nline 1\n", raw)
