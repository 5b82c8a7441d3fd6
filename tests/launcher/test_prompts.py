"""What a person is asked at a terminal, and what each answer does: attach, rm, prune, stop; real ptys."""

import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from launcher.commands import _interrupt_prompt
from launcher.commands._interrupt_prompt import build_ctrl_c_prompt
from launcher.terminal.screen import Screen
from tests.launcher.asked_runs import ALIVE, LONG, LOST, NEW, OLD, OLDER, RUN, ended
from tests.launcher.terminal import Home, Terminal

pytestmark = pytest.mark.slow

SHORT = "print('up', flush=True)\n"
STUBBORN = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(99)\n"
CTRL_C, CTRL_D = "\x03", "\x04"
QUESTION = "[d]etach and let the run continue, [s]top the run, or Enter to stay?"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.end_all()


@pytest.mark.parametrize(("waiting", "answer"), [("Ctrl-C", "stop"), ("SIGTERM", "stay"), ("SIGHUP", "stay")])
def test_what_came_while_the_question_was_written_is_no_answer_but_ctrl_c(waiting: str, answer: str) -> None:
    screen = Screen(io.StringIO())
    screen.hurry_when(lambda: waiting)
    with mock.patch.object(sys, "stdin"), mock.patch.object(screen.stream, "isatty", return_value=True):
        asks = build_ctrl_c_prompt(screen, again="stop")
    assert asks is not None
    assert asks() == answer


def test_a_question_that_nobody_answers_holds_up_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that fails meanwhile must end those of the other hosts, and the end of a run the command."""
    monkeypatch.setattr(_interrupt_prompt, "_PATIENCE_S", 0.2)
    reader, writer = os.pipe()
    shown = io.StringIO()
    with os.fdopen(reader) as silent:
        monkeypatch.setattr(sys, "stdin", silent)
        assert _interrupt_prompt._ask(Screen(shown), "stop") == "stay"
    os.close(writer)
    assert "no answer" in shown.getvalue()


@pytest.mark.parametrize(("keys", "words"), [("d\n", "d"), (CTRL_C, "Ctrl-C again"), (CTRL_D, "Ctrl-D")])
def test_attach_is_left_and_the_run_goes_on(home: Home, keys: str, words: str) -> None:
    home.launch(LONG)
    attached = Terminal(home, "attach", RUN)
    attached.until("] line ")
    attached.press(CTRL_C)
    attached.until(QUESTION)
    attached.press(keys)
    code, screen = attached.end()
    assert code == 0, screen
    assert f"detached; the run continues. Come back with: gpulaunch attach {RUN}" in screen
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
    removal = home.gpulaunch("rm", RUN)
    assert (removal.returncode, home.runs.joinpath(RUN).exists()) == (2, True)
    assert f"fix: gpulaunch rm {RUN} --yes" in removal.stderr
    assert removal.stdout.startswith(f"{RUN}  ")
    last = home.gpulaunch("rm", "last")
    assert (last.stderr.startswith(f"last is {RUN}  "), RUN in last.stdout) == (True, False)
    stop = home.gpulaunch("stop")
    assert (stop.returncode, stop.stdout) == (0, f"no run is live: {RUN} has ended\n"), stop.stderr
    for answer, expected in (("n\n", 1), ("\n", 1), (CTRL_C, 130)):
        terminal = Terminal(home, "rm", RUN)
        terminal.until("Delete its logs and records on the hosts? [y/N]:")
        terminal.press(answer)
        code, screen = terminal.end()
        assert code == expected, screen
        assert ("nothing was deleted" in screen) is (expected == 1)
        assert home.runs.joinpath(RUN).exists()
    terminal = Terminal(home, "rm", RUN)
    terminal.until("[y/N]:")
    terminal.press("y\n")
    code, screen = terminal.end()
    assert code == 0, screen
    assert f"{RUN}: removed from 1 host" in screen
    assert not home.runs.joinpath(RUN).exists()


def test_prune_deletes_what_ended_long_ago_and_nothing_else(home: Home) -> None:
    home.launch(SHORT, OLD)
    home.launch(SHORT, OLDER)
    home.launch(SHORT, NEW)
    home.launch(LONG, ALIVE)
    home.launch(SHORT, LOST)
    for run in (OLD, OLDER, NEW, LOST):
        ended(home, run)
    for run in (OLD, OLDER):
        _change(home, run, started=time.time() - 41 * 86400, ended=time.time() - 40 * 86400)
        (record,) = home.home.rglob(f"launches/{run}.json")
        record.write_text(json.dumps({**json.loads(record.read_text()), "at": time.time() - 41 * 86400}))
    true = json.loads((home.runs / NEW / "state.json").read_text())
    _change(home, NEW, started=100.0, ended=200.0)  # its host had no battery for its clock
    _change(home, ALIVE, started=time.time() - 40 * 86400)
    _change(home, LOST, phase="running", ended=None, started=time.time() - 40 * 86400)

    refused = home.gpulaunch("prune")
    assert refused.returncode == 2, refused.stdout
    shown = home.gpulaunch("prune", "--dry-run")
    assert (shown.returncode, [line.split()[0] for line in shown.stdout.splitlines()]) == (
        0,
        [OLD, OLDER, "nothing"],
    )
    assert f"{NEW} is kept: by the clock of localhost it ended before it was launched; " in shown.stderr
    _change(home, NEW, **true)
    would_go = json.loads(home.gpulaunch("prune", "--dry-run", "--yes", "--json").stdout)["runs"]
    assert [(run["run_id"], run["hosts"][0]["removed"]) for run in would_go] == [(OLD, False), (OLDER, False)]
    assert {path.name for path in home.runs.iterdir()} == {OLD, OLDER, NEW, ALIVE, LOST}
    terminal = Terminal(home, "prune")
    terminal.until("Delete the logs and records of these 2 runs on the hosts? [y/N]:")
    terminal.press("y\n")
    code, screen = terminal.end()
    assert code == 0, screen
    assert {path.name for path in home.runs.iterdir()} == {NEW, ALIVE, LOST}
    again = home.gpulaunch("prune", "--yes")
    assert (again.returncode, again.stdout) == (
        0,
        "no run on localhost ended more than 30d ago; --older-than sets the time\n",
    )
    assert home.gpulaunch("prune", "--yes", "--older-than", "0s").returncode == 0
    assert {path.name for path in home.runs.iterdir()} == {ALIVE, LOST}
    wrong = home.gpulaunch("prune", "--older-than", "soon")
    assert wrong.returncode == 2
    assert "--older-than: expected a duration such as 90" in wrong.stderr
    assert "--since" not in wrong.stderr


def _change(home: Home, run: str, **values: object) -> None:
    path = home.runs / run / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_stop_now_gives_no_grace(home: Home) -> None:
    home.launch(STUBBORN, grace_s=60.0)
    began = time.monotonic()
    refused = home.gpulaunch("stop")
    assert (refused.returncode, home.phase()) == (2, "running")
    assert f"fix: gpulaunch stop {RUN}" in refused.stderr
    done = home.gpulaunch("stop", "--yes", "--now")  # without RUN, the last that lives
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 30  # the run's grace is 60 s, and this rank ignores SIGTERM
    assert "localhost: ended (rank 0: ended by SIGKILL)" in done.stdout
    assert f"{RUN} has ended on localhost; no process of it is left" in done.stdout
    again = home.gpulaunch("stop", RUN)
    assert (again.returncode, "localhost: ended" in again.stdout) == (0, True), again.stderr


def test_stop_gives_the_grace_that_the_run_was_launched_with(home: Home) -> None:
    home.launch(STUBBORN, grace_s=0.5)
    done = home.gpulaunch("stop", RUN)
    assert done.returncode == 0, done.stderr
    assert json.loads((home.runs / RUN / "stop.json").read_text())["grace_s"] == 0.5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_run_at_the_question_too(home: Home, number: signal.Signals) -> None:
    home.launch(LONG)
    attached = Terminal(home, "attach", RUN)
    attached.until("] line ")
    attached.press(CTRL_C)
    attached.until(QUESTION)
    os.kill(attached.pid, number)
    code, screen = attached.end()
    assert code == 0, screen
    assert "detached; the run continues" in screen
    assert home.phase() == "running"


@pytest.mark.parametrize("hears", [True, False])
@pytest.mark.parametrize("command", [("attach", RUN), ("logs", "-f", RUN)])
def test_a_closed_terminal_is_the_end_of_its_client_and_no_bug(
    home: Home,
    command: tuple[str, ...],
    hears: bool,  # noqa: FBT001
) -> None:
    home.launch(LONG)
    client = Terminal(home, *command, hears_of_end=hears)
    client.until("] line ")
    client.close()
    assert client.end()[0] == 129
    assert home.phase() == "running"
    assert not list(home.home.glob(".local/state/gpulaunch/bug-*"))


def test_logs_of_a_run_that_goes_on_end_with_ctrl_c_and_the_run_does_not(home: Home) -> None:
    home.launch(LONG)
    logs = Terminal(home, "logs", "-f", RUN)
    logs.until("] line 3\r\n")
    logs.press(CTRL_C)
    code, screen = logs.end()
    assert code == 0, screen
    assert home.phase() == "running"
    raw = home.gpulaunch("logs", RUN, "--rank", "0").stdout
    assert re.match(r"up\nline 0\nline 1\n", raw)
