"""`gpulaunch diagnose RUN`: what the kept outcome of a run says beside its logs."""

import json
from pathlib import Path

import pytest

from launcher.errors import BadInput
from tests.launcher.kept_runs import OOM, RUN, a_run, gpulaunch


def keep_failure(run: Path, **root: object) -> None:
    cause = {
        "host": "titan",
        "rank": 5,
        "code": -9,
        "summary": "rank 5 on titan was ended by signal 9 (SIGKILL)",
    }
    (run / "plan.json").write_text("{}")
    (run / "outcome.json").write_text(json.dumps({"verdict": "failed", "root_cause": {**cause, **root}}))


def test_what_failed_first_by_the_outcome_comes_first_whatever_its_peers_say(tmp_path: Path) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-5.log").write_text("step 7\n")
    keep_failure(run)
    printed = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output.splitlines()
    assert printed[0] == "failed first: rank 5 on titan was ended by signal 9 (SIGKILL)"
    assert "(S70, likely" in printed[1]
    assert any(line.startswith("also") and "(S20, " in line for line in printed)
    document = json.loads(gpulaunch("diagnose", RUN, "--logs", str(tmp_path), "--json").output)
    assert [cause["code"] for cause in document["causes"]] == ["S70", "S20"]
    assert (document["root_cause"]["rank"], document["root_cause"]["code"]) == (5, -9)
    keep_failure(
        run, kernel_oom="the kernel counted an out-of-memory kill in the run's control group just then"
    )
    printed = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output.splitlines()
    assert "(S70, certain): a process was killed because" in printed[1]
    assert printed[2].startswith(
        "  kernel log: the kernel counted an out-of-memory kill in the run's control"
    )


def test_what_says_no_cause_does_not_follow_a_known_one(tmp_path: Path) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-5.log").write_text("step 7\n")
    launcher = "E1126 api.py:882] failed (exitcode: -9) local_rank: 1\nChildFailedError: \ntrain.py FAILED\n"
    (run / "titan" / "launcher.log").write_text(launcher)
    assert "unknown (S99" in gpulaunch("diagnose", str(run / "titan" / "launcher.log")).output
    keep_failure(run)
    printed = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output
    assert "(S70, likely" in printed
    assert "(S20, " in printed
    assert "S99" not in printed


@pytest.mark.parametrize(
    ("verdict", "log", "printed"),
    [
        ("aborted", "step 7\n", "its logs show no failure"),
        ("aborted", OOM, "cuda-oom (S20, certain, titan, rank 3): "),
        ("interrupted", "ChildFailedError: \ntrain.py FAILED\n", "its logs show no failure"),
        ("verification_failed", "ChildFailedError: \ntrain.py FAILED\n", "its logs show no failure"),
        ("verification_failed", "SignalException: Process 7 got signal: 15\n", "its logs show no failure"),
        ("interrupted", OOM, "cuda-oom (S20, certain, titan, rank 3): "),
        ("interrupted", "SignalException: Process 7 got signal: 15\n", "its logs show no failure"),
    ],
)
def test_a_run_that_no_rank_has_ended_is_shown_with_the_reason_of_its_end(
    tmp_path: Path, verdict: str, log: str, printed: str
) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-3.log").write_text(log)
    (run / "plan.json").write_text("{}")
    end = {"verdict": verdict, "why": "l40s-02 was lost: no answer"}
    fix = "--gpus none" * (verdict == "verification_failed")
    (run / "outcome.json").write_text(json.dumps({**end, "root_cause": None, "verified": {"fix": fix}}))
    lines = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output.splitlines()
    assert lines[0] == f"{verdict}: l40s-02 was lost: no answer"
    if fix:
        assert lines.pop(1) == f"  fix: {fix}"
    assert lines[1].startswith(printed)
    shown = json.loads(gpulaunch("diagnose", RUN, "--logs", str(tmp_path), "--json").output)["end"]
    assert shown == {**end, "fix": fix}


def test_a_run_that_finished_has_not_failed_whatever_its_ranks_have_printed(tmp_path: Path) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-3.log").write_text("ChildFailedError: \ntrain.py FAILED\n")
    (run / "plan.json").write_text("{}")
    (run / "outcome.json").write_text(json.dumps({"verdict": "finished", "why": "", "root_cause": None}))
    assert gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output == "its logs show no failure\n"


@pytest.mark.parametrize("has_files", [True, False])
def test_a_run_that_finished_has_not_failed_though_it_printed_nothing(
    tmp_path: Path, *, has_files: bool
) -> None:
    run = a_run(tmp_path) / RUN
    (run / "plan.json").write_text("{}")
    for log in (run / "titan").iterdir():
        log.write_text("") if has_files else log.unlink()
    end = {"verdict": "finished", "why": "", "root_cause": None}
    (run / "outcome.json").write_text(json.dumps({**end, "logs_incomplete": ""}))
    assert gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output == "no failure found\n"
    (run / "outcome.json").write_text(json.dumps({**end, "logs_incomplete": "titan: no answer"}))
    assert isinstance(gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).exception, BadInput)


def test_a_hung_run_has_failed_though_its_logs_show_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-3.log").write_text("step 7\n")
    keep_failure(run, code=None, summary="hung: no output for 20 s; rank 5 executes save (train.py:4)")
    assert gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output == (
        "failed first: hung: no output for 20 s; rank 5 executes save (train.py:4)\n"
        "its logs show no failure\n"
    )


@pytest.mark.parametrize(
    ("log", "cause"),
    [("step 7\n", "its logs show no failure"), (OOM, "cuda-oom (S20, certain, titan, rank 3)")],
)
def test_a_hung_run_shows_where_it_stood_and_not_how_it_was_ended(
    tmp_path: Path, log: str, cause: str
) -> None:
    run = a_run(tmp_path) / RUN
    (run / "titan" / "rank-3.log").write_text(log)
    ended = (
        "W1126 api.py:1010] Sending process 7 closing signal SIGTERM\nChildFailedError: \ntrain.py FAILED\n"
    )
    (run / "titan" / "launcher.log").write_text(ended)
    place = {"location": "/x/train.py:4", "last_lines": ["save (train.py:4)", "<module> (train.py:9)"]}
    keep_failure(run, code=None, summary="hung: no output for 20 s", **place)
    document = json.loads((run / "outcome.json").read_text())
    (run / "outcome.json").write_text(json.dumps({**document, "exit_code": 124}))
    lines = gpulaunch("diagnose", RUN, "--logs", str(tmp_path)).output.splitlines()
    assert lines[:4] == [
        "failed first: hung: no output for 20 s",
        "  at /x/train.py:4 on titan",
        "  | save (train.py:4)",
        "  | <module> (train.py:9)",
    ]
    assert lines[4].startswith(cause)
    assert not {"S73", "S99"} & {cause["code"] for cause in _json_causes(tmp_path)}


def _json_causes(runs: Path) -> list[dict[str, str]]:
    causes: list[dict[str, str]] = json.loads(
        gpulaunch("diagnose", RUN, "--logs", str(runs), "--json").output
    )["causes"]
    return causes


@pytest.mark.parametrize(
    "outcome",
    [
        '{"root_cause": {"host": "titan", "rank": 5, "code": null, "summary": "rank 5 hung"}, "hang": {}}',
        '{"root_cause": {"host": 3, "rank": 5, "code": -9, "summary": "odd"}}',
        '{"root_cause": {"host": "titan", "rank": "5", "code": -9}}',
        '{"root_cause": null, "exit_code": 0}',
        "[]",
        "{",
    ],
)
def test_an_outcome_without_a_failed_rank_leaves_the_order_of_causes(tmp_path: Path, outcome: str) -> None:
    run = a_run(tmp_path) / RUN
    (run / "plan.json").write_text("{}")
    (run / "outcome.json").write_text(outcome)
    done = gpulaunch("diagnose", RUN, "--logs", str(tmp_path), "--json")
    assert [cause["code"] for cause in json.loads(done.output)["causes"]] == ["S20"]
