"""Questions to a person, and what is said to who waits."""

import os
import pty
import sys
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.terminal import output
from launcher.terminal.slow_hosts import name_slow_hosts


def test_slow_hosts_are_named_at_a_terminal_and_in_no_question(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [HostEntry("gpu-1"), HostEntry("gpu-2")]
    name_slow_hosts(hosts)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(output, "_unanswered", [(9, [])])
    name_slow_hosts(hosts)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "_unanswered", [])
    name_slow_hosts(hosts, "; Ctrl-C shows what came")
    assert "waiting for gpu-[1-2]; Ctrl-C shows what came" in capsys.readouterr().err


PIPED = """
import os, sys
os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT), 2)
from launcher.terminal.output import ask_visibly, can_ask
if os.fork() == 0:
    os.setpgid(0, 0)
    os._exit(int(can_ask()))  # a job in the background
in_background = os.waitstatus_to_exitcode(os.wait()[1])
print(can_ask(), in_background, ask_visibly(("It is new.",), "Continue?"))
"""


def test_a_question_is_asked_at_the_terminal_where_standard_error_is_a_file(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-c", PIPED])
    shown = b""
    while not shown.endswith(b"It is new.\r\nContinue? "):
        shown += os.read(terminal, 1000)
    os.write(terminal, b"yes\n")
    while b"True 0 yes" not in shown:
        shown += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "said").read_text() == ""
    os.close(terminal)
