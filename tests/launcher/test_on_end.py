"""`on_end:` of a run config: what it may say, whose command runs, and how its failures end."""

import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from launcher.commands import _missed_end, _on_end
from launcher.commands._host_access import HostAccess
from launcher.config.config_overrides import Overrides
from launcher.config.on_end_options import EndCommand
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, ConfigError
from launcher.runs.end_notice import EndNotice, HeldNotice, list_due_runs, notices_dir
from launcher.transports.base import OpenOptions
from launcher.transports.command_consent import Consent, read_allowed_commands
from launcher.transports.on_end_command import check_end_command, run_end_command
from tests.launcher.run_plans import run_id
from tests.launcher.via_hosts import NOBODY

WORDS = ("sh", "-c", "cat > {}")


def test_the_outcome_comes_on_stdin(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    document = {"verdict": "failed", "why": "x" * 200_000}
    assert run_end_command(("sh", "-c", f"cat > {shlex.quote(str(out))}; echo said"), document) == ""
    assert json.loads(out.read_text()) == document


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("no-such-program",), "on_end: no-such-program: cannot be started: No such file or directory"),
        (("~nobody-of-that-name/x",), "cannot be started: "),
        (("sh", "-c", "echo first; printf '\\033[2Jlast' >&2; exit 9"), "exit code 9: first"),
        (("sh", "-c", "kill -9 $$"), "ended by SIGKILL"),
        (("true",), ""),  # it reads nothing of its stdin
        (("sh", "-c", "sleep 60 &"), ""),  # what it leaves in the background holds nothing up
    ],
)
def test_a_failure_is_one_harmless_line(words: tuple[str, ...], why: str) -> None:
    said = run_end_command(words, {"why": "x" * 200_000})
    assert (why in said) if why else said == ""
    assert "\n" not in said
    assert "\x1b" not in said


def test_a_program_that_is_not_there_is_refused_before_the_run() -> None:
    check_end_command((sys.executable, "-c", ""))
    with pytest.raises(BadInput, match="on_end: no-such-program: no such program, or it is not executable"):
        check_end_command(("no-such-program", "-x"))


def test_a_command_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    late = tmp_path / "late"
    began = time.monotonic()
    said = run_end_command(("sh", "-c", f"(sleep 3; touch {late}) & wait"), {}, timeout_s=0.3)
    assert "ended after 0.3 s, which is all it has" in said
    assert time.monotonic() - began < 3.0 or not late.exists()


def config(folder: Path, on_end: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(f"script: train.py\non_end: {on_end}\n")
    return path


def test_the_key(tmp_path: Path) -> None:
    path = config(tmp_path, "[jq, '{text: .why}']")
    assert load_run_config(str(path)).on_end == EndCommand(("jq", "{text: .why}"))
    typed = load_run_config(str(path), Overrides(key_values=("on_end=[mail, ana]",))).on_end
    assert typed == EndCommand(("mail", "ana"), is_typed=True)
    assert load_run_config(str(path), Overrides(key_values=("on_end=",))).on_end is None


@pytest.mark.parametrize(
    "on_end", ["[]", "mail ana", "[./notify]", "[-x]", "[a/b]", "[[a]]", '["a\\eb"]', '[""]']
)
def test_what_is_no_command_is_refused(tmp_path: Path, on_end: str) -> None:
    with pytest.raises(ConfigError, match="on_end"):
        load_run_config(str(config(tmp_path, on_end)))


def test_on_end_of_a_project_needs_a_yes_of_its_own(
    tmp_path: Path, config_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = config(tmp_path, "[true]")
    of_a_via = {"runs": "local", "words": ["true"], "in": str(tmp_path)}
    (config_home / "allowed-commands").write_text(json.dumps(of_a_via) + "\n")
    (config_home / "allowed-commands").chmod(0o600)
    with pytest.raises(BadInput, match="not allowed yet: true") as caught:
        Consent(NOBODY).demand_end_command(("true",), project)
    assert "--set on_end=" in caught.value.fix
    questions: list[str] = []

    def yes(lines: tuple[str, ...], _: str) -> str:
        questions.extend(lines)
        return "yes"

    Consent(OpenOptions(confirm=yes)).demand_end_command(("true",), project)
    assert questions[1] == "true"
    assert ("end", ("true",), str(tmp_path)) in read_allowed_commands()
    Consent(NOBODY).demand_end_command(("true",), project)  # from now on
    another = tmp_path / "another"
    another.mkdir()
    monkeypatch.chdir(another)  # there [sh, notify.sh] is another program
    with pytest.raises(BadInput):
        Consent(NOBODY).demand_end_command(("true",), config(another, "[true]"))
    with pytest.raises(BadInput):
        Consent(OpenOptions(confirm=lambda *_: "no")).demand_end_command(("false",), project)
    Consent(NOBODY).demand_end_command(("false",), config(config_home, "[false]"))  # the user's own


def test_a_notice_is_of_one_process_at_a_time_and_of_none_once_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = run_id("a-1"), run_id("a-2")
    notice = EndNotice(("mail", "ana"), "/project", "/project/gpulaunch-runs")
    client = HeldNotice(notice)
    client.keep(first)
    client.keep(second)  # the run was started again
    assert list_due_runs() == (second,)
    assert HeldNotice.take(second) is None  # the client lives
    client.close()
    later = HeldNotice.take(second)
    assert later is not None
    assert later.notice == replace(notice, earlier=(first,))
    assert HeldNotice.take(second) is None
    later.settle()
    assert (list_due_runs(), HeldNotice.take(second)) == ((), None)
    for number in range(3):
        (notices_dir() / f"{run_id(f'bad-{number}')}.json").write_text(("{}", "[", '{"words": 1}')[number])
    assert [HeldNotice.take(name) for name in list_due_runs()] == [None] * 3
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")  # where nothing can be kept the client still delivers
    client.keep(first)
    client.settle()


def test_it_runs_where_the_run_was_launched(tmp_path: Path) -> None:
    assert run_end_command(("sh", "-c", "pwd > here"), {}, cwd=str(tmp_path)) == ""
    assert (tmp_path / "here").read_text().strip() == str(tmp_path.resolve())
    assert "cannot be started" in run_end_command(("true",), {}, cwd=str(tmp_path / "gone"))


def test_a_start_that_came_to_nothing_with_its_client_owes_the_end_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find(name: str, *_: object) -> object:
        asked.append(name)
        return SimpleNamespace(is_over=True, is_live=False) if name == "r-20260101-000001-abcdef" else None

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked: list[str] = []
    ran = tmp_path / "ran"
    held = HeldNotice(EndNotice(("sh", "-c", f"cat >> {ran}"), str(tmp_path), str(tmp_path)))
    starts = [f"r-20260101-00000{number}-abcdef" for number in range(3)]
    for each in starts:
        held.keep(each)
    held.close()  # its client was killed before the last one was made
    monkeypatch.setattr(_missed_end, "find_last_start", find)
    monkeypatch.setattr(_missed_end, "read_end", lambda *_: {"verdict": "failed"})
    for _ in range(2):
        _on_end.deliver_due(cast("HostAccess", None), ())
    assert asked == starts[:0:-1]
    assert ran.read_text().count("failed") == 1
