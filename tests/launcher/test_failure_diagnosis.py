"""A run that died says why, from its last lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.follow.failure_diagnosis import add_diagnosis, add_last_lines, read_kept_failure
from launcher.follow.outcome import Outcome
from launcher.follow.suggested_commands import list_places, with_run_commands
from launcher.report.diagnosis import render_diagnosis
from launcher.report.outcome import encode_outcome, render_outcome
from launcher.rundir.log_store import LogStore
from preflight.diagnosis.free_memory import FreeMemory
from preflight.diagnosis.result import Cause, Diagnosis, Evidence
from tests.launcher.run_events import GOOD, failed, over
from tests.launcher.run_plans import node

OOM = b"""Traceback (most recent call last):
  File "/home/ada/train.py", line 7, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def diagnosed(tmp_path: Path, log: bytes, outcome: Outcome) -> Outcome:
    book = LogStore(tmp_path)
    book.write("b", "rank-1.log", 0, log)
    book.close()
    return add_diagnosis(outcome, book)


def test_the_first_cause_comes_with_evidence_and_fix(tmp_path: Path) -> None:
    outcome = diagnosed(tmp_path, OOM, failed())
    lines = list(render_outcome(outcome))
    assert any(line.startswith("diagnosis: cuda-oom") for line in lines)
    assert any("line 4: torch.OutOfMemoryError" in line for line in lines)
    assert any(line.startswith("  fix: ") for line in lines)
    document = encode_outcome(outcome)["diagnosis"]
    assert document["verdict"] == "cuda-oom"
    assert document["causes"][0]["evidence"]


def test_an_exception_that_the_full_disk_kept_out_of_the_log_is_diagnosed(tmp_path: Path) -> None:
    outcome = failed()
    assert outcome.cause.failure is not None
    lines = ("Traceback (most recent call last):", "OSError: [Errno 28] No space left on device")
    cause = replace(outcome.cause.failure, last_lines=lines)
    for log, source in ((b"step 1\n", "b/rank-1 exception"), ("\n".join(lines).encode(), "")):
        found = diagnosed(tmp_path, log, replace(outcome, cause=replace(outcome.cause, failure=cause)))
        causes = encode_outcome(found)["diagnosis"]["causes"]
        assert [(each["code"], each["evidence"][0]["source"]) for each in causes] == [("S76", source)]


def test_a_rank_that_ended_well_before_is_the_cause_of_a_lost_peer(tmp_path: Path) -> None:
    log = b"RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:58545\n"
    outcome = failed()
    assert outcome.cause.failure is not None
    cause = replace(outcome.cause.failure, early_end="rank 0 on a had ended with exit code 0")
    found = diagnosed(tmp_path, log, replace(outcome, cause=replace(outcome.cause, failure=cause)))
    causes = encode_outcome(found)["diagnosis"]["causes"]
    assert [each["code"] for each in causes] == ["S25", "S57"]
    assert causes[0]["evidence"][0]["text"] == "rank 0 on a had ended with exit code 0"


def test_what_was_free_before_a_bus_error_is_kept_with_the_run(tmp_path: Path) -> None:
    outcome = failed()
    assert outcome.cause.failure is not None
    cause = replace(outcome.cause.failure, code=135, room=FreeMemory(3.0, None, 2.0))
    found = diagnosed(tmp_path, b"step 1\n", replace(outcome, cause=replace(outcome.cause, failure=cause)))
    document = encode_outcome(found)
    (first,) = document["diagnosis"]["causes"]
    assert (first["code"], first["confidence"]) == ("S74", "certain")
    assert first["evidence"][-1]["text"] == "shared memory (/dev/shm) had 2 MiB free 3 s before"
    kept = read_kept_failure(document)
    assert kept is not None
    assert kept.room == cause.room
    damaged: object
    for damaged in (None, [], {"age_s": "x"}, {"shm_free_mib": 3}):
        kept = read_kept_failure({"root_cause": {**document["root_cause"], "room": damaged}})
        assert kept is not None
        assert kept.room is None


def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    outcome = diagnosed(tmp_path, b"\x1b[31mstep\x1b[0m\r\n" * 200_000 + OOM, failed())
    assert outcome.cause.diagnosis is not None
    assert outcome.cause.diagnosis.verdict == "cuda-oom"


def test_lines_have_the_numbers_of_the_file(tmp_path: Path) -> None:
    log = b"step\n" * 5000 + b"\n\n 1%\r 2%\r 3%\n" + OOM
    outcome = diagnosed(tmp_path, log, failed())
    assert outcome.cause.diagnosis is not None
    (seen, *_) = outcome.cause.diagnosis.causes[0].evidence
    (path,) = tmp_path.glob("*/rank-1.log")
    assert seen.text in path.read_bytes().decode().split("\n")[seen.line - 1]


def test_an_own_exception_is_not_told_twice(tmp_path: Path) -> None:
    own = b'Traceback (most recent call last):\n  File "/x.py", line 3, in <module>\nValueError: no\n'
    lines = list(render_outcome(diagnosed(tmp_path, own, failed())))
    assert not any(line.startswith("diagnosis") for line in lines)


def test_a_refused_argument_is_told_with_what_was_meant(tmp_path: Path) -> None:
    refusal = b"usage: t.py [-h] [--lr LR]\nt.py: error: unrecognized arguments: --lrr 3\n"
    lines = list(render_outcome(diagnosed(tmp_path, refusal, failed())))
    assert any(line.endswith("write --lr instead of --lrr") for line in lines)


def test_what_our_own_signal_made_a_log_end_with_is_no_cause_of_a_hang(tmp_path: Path) -> None:
    book = LogStore(tmp_path)
    book.write("b", "rank-1.log", 0, b"ChildFailedError\n")
    outcome = failed()
    assert outcome.cause.failure is not None
    ends = []
    for hung in (False, True):
        cause = replace(outcome.cause, failure=replace(outcome.cause.failure, last_lines=(), hung=hung))
        told = add_last_lines(replace(outcome, cause=cause), book).cause.failure
        ends.append(told and told.last_lines)
    assert ends == [("ChildFailedError",), ()]


def test_a_good_end_has_no_diagnosis(tmp_path: Path) -> None:
    outcome = diagnosed(tmp_path, OOM, over(*GOOD))
    assert outcome.cause.diagnosis is None
    assert encode_outcome(outcome)["diagnosis"] is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("export CUDA_LAUNCH_BLOCKING=1", "gpulaunch run ... --set env.CUDA_LAUNCH_BLOCKING=1"),
        ("export A_1=x:y B=2", "gpulaunch run ... --set env.A_1=x:y --set env.B=2"),
        ('export A="$B/lib"', 'export A="$B/lib"'),
        ("export A=1; B=2 helps", "export A=1; B=2 helps"),
        ("python -m pip install ninja", "python -m pip install ninja"),
    ],
)
def test_variables_for_a_script_are_variables_of_the_run(command: str, expected: str) -> None:
    evidence = (Evidence(1, 0, "x", "", "b"),)
    cause = Cause("S38", "slug", "certain", "cause", "fix", evidence, "", 0, "b", command)
    (got,) = with_run_commands(Diagnosis("slug", (cause,), ())).causes
    assert got.command == expected


@pytest.mark.parametrize(("source", "fix"), [("exit", "`kill -HUP`"), ("b/rank-0.log", "in tmux")])
def test_a_hangup_without_a_terminal_is_no_closed_session(source: str, fix: str) -> None:
    evidence = (Evidence(0, None, "a process of the run ended by signal 1", source),)
    cause = Cause("S72", "sighup", "likely", "the terminal was closed", "run it in tmux", evidence)
    (got,) = with_run_commands(Diagnosis("sighup", (cause,), ())).causes
    assert fix in got.fix


def test_a_failed_run_names_the_option_that_sets_a_variable_for_its_ranks(tmp_path: Path) -> None:
    log = b"RuntimeError: CUDA error: an illegal memory access was encountered\n"
    document = encode_outcome(diagnosed(tmp_path, log, failed()))["diagnosis"]
    assert document["causes"][0]["command"] == "gpulaunch run ... --set env.CUDA_LAUNCH_BLOCKING=1"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("df -h . /tmp", "df -h ~/x '/s c' /r/paper /tmp"),
        ("ls -ld /data", "ls -ld /data"),
        ("python -m pip install ninja", "~/venv/bin/python -m pip install ninja"),
        ("cp a b/python -m", "cp a b/python -m"),
    ],
)
def test_a_command_for_the_host_names_its_interpreter_and_directory(command: str, expected: str) -> None:
    place = replace(node("b", 1, 1, (None,)), python="~/venv/bin/python", cwd="~/x", output_dir="/s c")
    cause = Cause(
        "S76", "disk-full", "certain", "c", "f", (Evidence(1, 0, "x", "", "b"),), "", 0, "b", command
    )
    found = with_run_commands(Diagnosis("disk-full", (cause,), ()), list_places((place,), {"b": "/r/paper"}))
    assert found.causes[0].command == expected
    words = "how" if command.startswith("cp ") else "type on b"
    assert f"  {words}: {expected}" in render_diagnosis(found)


@pytest.mark.parametrize("sent", ["script/train.py", "accelerate.yaml"])
def test_a_file_that_only_the_local_directory_has_comes_with_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").touch()
    text = "FileNotFoundError: [Errno 2] No such file or directory: '{}'"
    commands = []
    for name in ("a.json", "b.json", str(tmp_path / "a.json"), "a" * 300):
        evidence = (Evidence(1, 0, text.format(name), "", "b"),)
        cause = Cause("S92", "missing-file", "likely", "c", "f", evidence, "", 0, "b", "")
        place = replace(node("b", 1, 1, (None,)), files=((sent, ""),))
        found = with_run_commands(Diagnosis("missing-file", (cause,), ()), list_places((place,)))
        commands.append(found.causes[0].command)
    assert commands == ["gpulaunch run ... --sync" if sent.startswith("script/") else "", "", "", ""]
