"""What people and programs read of a run while it goes and when it is over."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.cli import run_command_line
from launcher.commands import _run_options, attach, prune, rm, stacks
from launcher.errors import AgentCrashed, ConnectionTimedOut
from launcher.report.outcome import encode_outcome, render_outcome
from launcher.report.outcome_printer import print_outcome
from launcher.terminal.screen import Screen
from preflight.diagnosis.stack_analysis import Hang, RankStack
from tests.launcher.run_events import GOOD, ended, failed, host_report, over
from tests.launcher.run_plans import RUN_ID, plan

CPU = (None,)


def test_a_good_end_is_three_lines() -> None:
    assert list(render_outcome(over(*GOOD))) == [
        "no process of the run is left on any host, port 29500 is free",
        f"to copy what the script wrote in ~ on a,b: gpulaunch fetch {RUN_ID} --path PATH",
        "finished (exit code 0) after 12.3 s; logs: nowhere",
    ]


@pytest.mark.parametrize(
    ("unreported", "placeless", "gpus", "said"),
    [
        ((0, 1), (), 2, "ranks 0-1 have not set up torch.distributed or accelerate so far"),
        ((1,), (0,), 2, "rank 1 has not set up torch.distributed or accelerate so far"),
        ((), (0, 1), 2, "ranks 0-1 have not reported a GPU (DistributedDataParallel does) so far"),
        ((0,), (), 1, "rank 0 has not started so far"),
        ((), (0,), 1, "rank 0 has not started CUDA so far"),
    ],
)
def test_a_run_that_is_left_says_what_no_rank_has_shown_yet(
    unreported: tuple[int, ...], placeless: tuple[int, ...], gpus: int, said: str
) -> None:
    outcome = replace(over(*GOOD), verdict="detached", plan=plan(*(("GPU-0",),) * gpus))
    shown = replace(
        outcome.verification,
        devices_verified=False,
        unreported_ranks=unreported,
        ranks_without_device=placeless,
    )
    assert next(render_outcome(replace(outcome, verification=shown))) == f"not verified yet: {said}"


def test_a_failure_begins_with_its_root_cause_and_last_lines() -> None:
    lines = list(render_outcome(failed()))
    assert lines[:5] == [
        "root cause: rank 1 on b failed with exit code 1: ValueError: no",
        "  at /x.py:3 on b",
        "  | a",
        "  | b",
        "  after that: rank 0 on a was ended by signal 15 (SIGTERM)",
    ]
    assert lines[-1] == "failed (exit code 1) after 12.3 s; logs: nowhere"


@pytest.mark.parametrize("shown", ["nothing", "a\nb\n", "a\nb\nand more\n", "b\n"])
def test_the_last_lines_of_a_single_rank_are_shown_once(shown: str) -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.output("b", "rank-0.log", shown.encode(), 0.0)
    outcome = replace(failed(), plan=plan((None,)))
    assert outcome.cause.failure is not None
    failure = replace(outcome.cause.failure, rank=0)
    print_outcome(replace(outcome, cause=replace(outcome.cause, failure=failure)), screen)
    lines = stream.getvalue().splitlines()
    assert (lines.count("[b r0] a") + lines.count("==>   | a")) == 1
    assert any(line.startswith("==> root cause: ") for line in lines)


def test_the_last_lines_of_rank_0_are_kept_and_of_no_other() -> None:
    screen = Screen(io.StringIO())
    screen.output("b", "rank-1.log", b"a\n", 0.0)
    assert not screen.has_shown("b", ["a"])
    screen.output("b", "rank-0.log", b"a\n", 0.0)
    assert screen.has_shown("b", ["a"])


def test_the_document_holds_what_the_lines_say() -> None:
    document = json.loads(json.dumps(encode_outcome(failed())))
    assert document["schema"] == "gpulaunch.run/1"
    assert (document["verdict"], document["exit_code"]) == ("failed", 1)
    assert document["root_cause"]["location"] == "/x.py:3"
    assert document["ranks"] == [{"rank": 0, "host": "a", "code": -15}, {"rank": 1, "host": "b", "code": 1}]


def test_ranks_that_never_reported_are_named() -> None:
    silent = over(host_report("a", "launcher_exit", code=0), ended("a"), ended("b"))
    assert any("never set up torch.distributed" in line for line in render_outcome(silent))


def test_a_busy_port_and_living_processes_are_told() -> None:
    lines = list(render_outcome(over(ended("a", port_free=False), ended("b", remaining_pids=[7]))))
    assert "b: could not be ended: 7" in lines
    assert "main port 29500 on a is in use" in lines
    assert not any("no process of the run is left" in line for line in lines)


def test_every_line_has_its_origin_in_front() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.output("titan", "rank-3.log", b"one\ntwo\n", 0.0)
    screen.output("titan", "launcher.log", b"warn\n", 0.0)
    screen.output("titan", "supervisor.log", b"for files only\n", 0.0)
    screen.mute_launcher()
    screen.output("titan", "launcher.log", b"forty lines\n", 0.0)
    screen.finish()
    assert stream.getvalue() == "[titan r3] one\n[titan r3] two\n[titan] warn\n"


def test_the_launcher_of_the_next_start_is_heard_again() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.mute_launcher()
    screen.finish()
    screen.output("titan", "launcher.log", b"no such file: train.py\n", 0.0)
    assert stream.getvalue() == "[titan] no such file: train.py\n"


def test_a_hostile_line_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.output("ti\x1b[2Jtan", "rank-0.log", b"\x1b[2Jgone\n", 0.0)
    screen.notify("bad \x1b]0;x\x07 news", bad=True)
    assert "\x1b" not in stream.getvalue()


def test_a_client_that_detaches_says_so_in_its_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = SimpleNamespace(is_over=False, is_live=True, slurm_job="")
    to = SimpleNamespace(demand=lambda: None, plan=plan(CPU))
    monkeypatch.setattr(_run_options, "open_named_run", lambda *_, **__: (None, found, to))
    for name in ("list_access_words", "describe_renamed_hosts"):
        monkeypatch.setattr(_run_options, name, lambda *_: ())
    monkeypatch.setattr(attach, "follow_starts", lambda *_: None)
    assert run_command_line(["attach", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"schema": "gpulaunch.attach/1", "exit_code": 0, "run_id": RUN_ID, "detached": True}


def test_stacks_as_a_document_name_the_hosts_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    access = SimpleNamespace(inventory=SimpleNamespace(access_words=()))
    to = SimpleNamespace(plan=plan(CPU, CPU), entries=(), open=None)
    hang = Hang((RankStack(0, "a", 7, "R"),), missing=(1,))
    monkeypatch.setattr(stacks, "reach_run", lambda *_: access)
    monkeypatch.setattr(stacks, "find_run", lambda *_: SimpleNamespace(status="running"))
    monkeypatch.setattr(stacks, "open_run", lambda *_: to)
    silent = {"b": ConnectionTimedOut("b", "no answer")}
    monkeypatch.setattr(stacks, "request_stacks", lambda *_: (hang, silent))
    assert run_command_line(["stacks", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["missing"]) == ("gpulaunch.stacks/1", [1])
    assert document["unreachable"] == {"b": "no answer"}
    assert document["unreachable_fixes"]["b"].startswith("is the host up,")


@pytest.mark.parametrize("argv", [("rm", "t-1", "--yes"), ("prune", "b"), ("prune", "b", "--dry-run")])
def test_commands_in_the_fixes_of_a_removal_reach_the_hosts(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").touch(0o600)
    silent = {"b": AgentCrashed("b", "it ended")}
    old = SimpleNamespace(run_id="t-1", status="failed", unheard=silent, nodes=(), is_over=False)
    monkeypatch.setattr(_run_options, "find_run", lambda *_, **__: old)
    monkeypatch.setattr(rm, "run_line", lambda *_: "")
    monkeypatch.setattr(
        prune, "search_all", lambda *_, **__: SimpleNamespace(errors=silent, other_hosts={}, runs=())
    )
    assert run_command_line([*argv, "--identity-file", "key", "--json"]) == 3
    fix = json.loads(capsys.readouterr().out)["unreachable_fixes"]["b"]
    assert "gpulaunch preflight --identity-file key b`" in fix
