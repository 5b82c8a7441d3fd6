"""Which ends of a run are started again: the whole table, case by case."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from launcher.config.restart_options import RestartOptions
from launcher.follow.events import HostReport, Interrupted, RunEvent
from launcher.follow.guard_reports import STOP_EXIT
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT
from launcher.follow.outcome import EndCause, Outcome, build_outcome
from launcher.follow.restart_history import RestartHistory, StartRecord
from launcher.follow.run_state import RunState
from launcher.report.restarts import encode_restarts
from launcher.restart.decision import (
    NoRestart,
    RunFailure,
    classify_failure,
    format_count,
    is_crash_loop,
    should_restart,
)
from launcher.restart.new_kernel_entries import read_kernel_logs, refine_with_host
from preflight.facts.host import HostFacts
from tests.launcher.restart_cases import ended
from tests.launcher.run_events import CPU, host_report, replay
from tests.launcher.run_plans import NOWHERE, plan
from tests.preflight.golden_cases import host

SPEC = RestartOptions(max=3)
BUG = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n    x[3]\nKeyError: 3\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 MiB free\n"
NCCL = "node1:1:2 [0] NCCL WARN Call to connect failed : Connection timed out\nRuntimeError: NCCL error\n"
GONE = {"type": "RuntimeError", "message": "[gloo] Connection closed by peer [10.0.0.2]:1"}
WATCHDOG = "Watchdog caught collective operation timeout\n" * 2  # a general signature
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"

AGAIN: dict[str, tuple[dict[str, Any], str]] = {
    "a host was lost": ({"verdict": "aborted", "lost": {"b": "no answer"}}, "host"),
    "a host was lost and a rank noticed first": ({"exception": GONE, "lost": {"b": "no answer"}}, "host"),
    "a host could not be started": ({"verdict": "aborted"}, "host"),
    "the host goes down": ({"verdict": "interrupted", "signalled": True}, "external"),
    "a rank was killed": ({"code": -9}, "external"),
    "a rank was terminated by somebody": ({"code": -15}, "external"),
    "the launcher was killed": ({"code": -9, "rank": None}, "external"),
    "the supervisor was killed": ({"code": None, "rank": None}, "external"),
    "the network failed": ({"log": NCCL}, "network"),
    "a collective timed out": ({"log": WATCHDOG}, "network"),
    "the peer was gone": ({"log": "RuntimeError: Connection closed by peer\n", "exception": GONE}, "network"),
    "it hung, and one rank stood apart": ({"code": None, "hung": True}, "hang"),
    "a host was lost and the network failed with it": ({"log": NCCL, "lost": {"b": "no answer"}}, "host"),
    "it hung, and a host was lost": ({"code": None, "hung": True, "lost": {"a": "no answer"}}, "hang"),
    "a GPU failed": ({"log": ECC}, "gpu"),
    "storage failed": ({"log": "OSError: [Errno 116] Stale file handle\n"}, "storage"),
}
NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "finished": ({"verdict": "finished"}, "it finished"),
    "remaining_pids": ({"verdict": "detached"}, "it continues"),
    "Ctrl-C": ({"verdict": "interrupted", "why": "Ctrl-C"}, "it was stopped by hand"),
    "gpulaunch stop": ({"verdict": "interrupted", "why": "stopped by ada@pc"}, "it was stopped by hand"),
    "Slurm preempts the job": ({"verdict": "interrupted", "why": PREEMPTED}, "Slurm ends its job"),
    "its time limit comes": ({"verdict": "interrupted", "why": TIME_LIMIT}, "Slurm ends its job"),
    "verification_failed": ({"verdict": "verification_failed"}, "would not be again"),
    "a bug": ({"log": BUG, "exception": {"type": "KeyError", "message": "3"}}, "script itself failed"),
    "a bug that no log tells": ({"exception": {"type": "KeyError", "message": "3"}}, "script itself failed"),
    "its own exit code": ({"code": 3}, "script itself failed"),
    "exit code 1": ({"code": 1}, "script itself failed"),
    "exit code 0 and a failure": ({"code": 0}, "script itself failed"),
    "no GPU memory": ({"log": OOM}, "memory ran out"),
    "a guard's stop": ({"code": STOP_EXIT}, "the numbers went bad"),
    "a bug although a host was lost": ({"log": BUG, "lost": {"a": "no answer"}}, "script itself failed"),
    "no room": ({"log": "OSError: [Errno 28] No space left on device\n"}, "a person must provide it"),
    "native code": ({"code": -11}, "native code crashed"),
    "nobody knows": ({"code": 1, "rank": None}, "it is not known why it failed"),
}


def stopping(host: str, cause: str) -> HostReport:
    """Return how a host reports that it ends its part, in the same words whatever the cause."""
    why = "asked to stop (SIGTERM)"
    return host_report(host, "stopping", cause=cause, grace_s=10, why=why, requested=True)


@pytest.mark.parametrize("name", AGAIN)
def test_what_may_have_passed_is_started_again(name: str) -> None:
    case, nature = AGAIN[name]
    reason = should_restart(classify_failure(ended(**case)), SPEC, 0)
    assert isinstance(reason, RunFailure)
    assert reason.category == nature
    assert reason.description


@pytest.mark.parametrize("name", NEVER)
def test_what_would_only_fail_again_or_was_wanted_is_not(name: str) -> None:
    case, words = NEVER[name]
    decision = should_restart(classify_failure(ended(**case)), SPEC, 0)
    assert isinstance(decision, NoRestart)
    assert words in decision.why


STOPS: dict[str, tuple[list[RunEvent], str]] = {
    "a host goes down": ([stopping("a", "signal"), stopping("b", "request")], "external"),
    "it was read second": ([stopping("b", "request"), stopping("a", "signal")], "external"),
    "a person uses the same words": ([stopping("a", "request"), stopping("b", "request")], "by hand"),
    "this client had stopped it": ([Interrupted(), stopping("a", "signal")], "by hand"),
}


@pytest.mark.parametrize("name", STOPS)
def test_who_has_stopped_a_run_is_read_from_the_cause_and_not_from_words(name: str) -> None:
    events, expected = STOPS[name]
    watch = RunState(plan(CPU, CPU))
    replay(watch, events)
    found = classify_failure(build_outcome(watch, NOWHERE, 1.0, 1))
    assert expected in (found.category if isinstance(found, RunFailure) else found.why)


def test_somebody_may_say_otherwise() -> None:
    outcome = ended(log=OOM)
    assert should_restart(
        classify_failure(outcome), RestartOptions(retry_on=("oom",)), 0
    ) == classify_failure(outcome)
    refused = should_restart(classify_failure(outcome), RestartOptions(retry_on=("script",)), 0)
    assert refused == NoRestart(
        "memory ran out, and would run out again (to try all the same: `retry_on: [oom]` under `restart:`)"
    )


def test_no_word_makes_a_stop_by_hand_a_failure() -> None:
    spec = RestartOptions(retry_on=("oom", "script", "precision", "crash", "environment", "unknown"))
    assert isinstance(
        should_restart(classify_failure(ended("interrupted", why="Ctrl-C")), spec, 0), NoRestart
    )
    assert isinstance(should_restart(classify_failure(ended("verification_failed")), spec, 0), NoRestart)


@pytest.mark.parametrize(
    ("done", "words"), [(3, "restarted 3 times already, which is `max`"), (4, "restarted 4 times")]
)
def test_restarts_come_to_an_end(done: int, words: str) -> None:
    decision = should_restart(classify_failure(ended(code=-9)), SPEC, done)
    assert isinstance(decision, NoRestart)
    assert words in decision.why


def test_the_rank_whose_own_log_condemns_its_gpu_is_named() -> None:
    reason = classify_failure(ended(log=ECC))
    assert isinstance(reason, RunFailure)
    assert (reason.code, reason.host, reason.rank) == ("S40", "b", 1)


KILLED = ended(code=-9)
COUNTED = "the kernel counted an out-of-memory kill in the run's control group just then"
OOM_LINE = {"kernel_log.oom_kills": ["Out of memory: Killed process 512 (python)"]}
XID = {"code": 79, "pci_bus_id": "0000:65:00", "at_uptime_s": 9.0, "text": "NVRM: Xid (PCI:0000:65:00): 79"}
UNREAD = {"kernel_log": {"missing": "not permitted", "code": "no-permission"}}


def _refine(outcome: Outcome, before: Mapping[str, HostFacts], after: Mapping[str, HostFacts]) -> Outcome:
    return refine_with_host(outcome, read_kernel_logs(before), after)


def test_a_sigkill_beside_which_memory_ran_out_stays_one_whatever_else_the_kernel_logged() -> None:
    outcome = ended(code=-9, oom=COUNTED)
    known = _refine(outcome, {"b": host(name="b")}, {"b": host({"kernel_log.xids": []}, "b")})
    for each in (outcome, known):
        decision = should_restart(classify_failure(each), SPEC, 0)
        assert isinstance(decision, NoRestart)
        assert "memory ran out" in decision.why


def test_somebody_elses_lack_of_memory_explains_nothing() -> None:
    known = _refine(KILLED, {"b": host(name="b")}, {"b": host(OOM_LINE, "b")})
    assert isinstance(should_restart(classify_failure(known), SPEC, 0), RunFailure)


NCCL_CUDA = ended(code=-6, log="RuntimeError: NCCL error in: x.cpp:1, unhandled cuda error\n")


@pytest.mark.parametrize("unread", ["before", "after"])
def test_a_kernel_log_that_was_not_read_changes_nothing(unread: str) -> None:
    seen = {
        "before": host(name="b"),
        "after": host({"kernel_log.xids": [XID]}, "b"),
        unread: host(UNREAD, "b"),
    }
    assert _refine(NCCL_CUDA, {"b": seen["before"]}, {"b": seen["after"]}) == NCCL_CUDA


def test_an_xid_from_before_the_run_condemns_no_gpu() -> None:
    before = {"b": host({"kernel_log.xids": [XID]}, "b")}
    reason = classify_failure(_refine(NCCL_CUDA, before, before))
    assert isinstance(reason, RunFailure)
    assert reason.code == "S56"


def test_a_new_xid_makes_a_crash_a_failed_gpu() -> None:
    known = _refine(NCCL_CUDA, {"b": host(name="b")}, {"b": host({"kernel_log.xids": [XID]}, "b")})
    reason = classify_failure(known)
    assert isinstance(reason, RunFailure)
    assert (reason.category, reason.code) == ("gpu", "S40")


def start(host_name: str = "b", **changes: Any) -> StartRecord:
    values: dict[str, Any] = {
        "run_id": "r",
        "verdict": "failed",
        "exit_code": 137,
        "why": "it failed",
        "identity": ("external", "S70", host_name),
        "world_size": 2,
        "mixed_precision": "no",
        "hosts": ("a", "b"),
        "seconds": 500.0,
        "logs": "x",
        "checkpoint_known": True,
        **changes,
    }
    return StartRecord(**values)


def test_each_start_tells_what_was_different_from_the_one_before() -> None:
    second = start(changes=("b is left out: it was lost", "world size 2 -> 1"))
    document = encode_restarts(RestartHistory(3, (start(), second), "no host is left"))
    assert (document["count"], document["stopped"]) == (1, "no host is left")
    assert [each["changes"] for each in document["starts"]] == [[], list(second.changes)]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (start(), start(), "with no checkpoint in between"),
        (
            start(last_checkpoint="checkpoint-5", last_step=5),
            start(last_checkpoint="checkpoint-5", last_step=5),
            "with no checkpoint newer than checkpoint-5 in between",
        ),
        (
            start(checkpoint_known=False),
            start(checkpoint_known=False, seconds=12.0),
            "with only 12 s in between",
        ),
    ],
)
def test_a_run_that_comes_no_further_is_not_started_again(
    before: StartRecord, now: StartRecord, words: str
) -> None:
    decision = is_crash_loop((before,), now)
    assert decision is not None
    assert decision.why == f"it ended twice in the same way, {words}"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (
            start(last_checkpoint="checkpoint-5", last_step=5),
            start(last_checkpoint="checkpoint-9", last_step=9),
        ),
        (start(), start(last_checkpoint="last", last_step=-1)),
        (start("a"), start("b")),
        (start(checkpoint_known=False), start(checkpoint_known=False, seconds=70.0)),
    ],
)
def test_a_run_that_came_further_or_failed_otherwise_is(before: StartRecord, now: StartRecord) -> None:
    assert is_crash_loop((before,), now) is None
    assert is_crash_loop((), now) is None


@pytest.mark.parametrize(
    ("nature", "codes"),
    [
        ("external", (-15, 143, -9, 137, -1, 129, -2, 130)),
        ("crash", (-3, -6, -10, -11, -34, 131, 134, 136, 139, 141, 152, 159)),
        ("script", (0, 1, 2, 3, 128, 144, 145, 151, 160, 255)),
    ],
)
def test_where_no_log_tells_why_the_exit_code_decides(nature: str, codes: tuple[int, ...]) -> None:
    for code in codes:
        outcome = ended(code=code)
        reason = classify_failure(replace(outcome, cause=replace(outcome.cause, diagnosis=None)))
        assert isinstance(reason, RunFailure)
        assert (reason.category, reason.host, reason.rank) == (nature, "b", None), code


def test_a_failure_of_which_nothing_is_known_is_not_started_again() -> None:
    decision = should_restart(classify_failure(replace(ended(), cause=EndCause(None, None))), SPEC, 0)
    assert isinstance(decision, NoRestart)
    assert "it is not known why it failed" in decision.why
    assert not decision.retryable


def test_a_lost_host_is_the_reason_and_is_named() -> None:
    reason = classify_failure(ended(log=NCCL, lost={"a": "no answer"}))
    assert reason == RunFailure("host", "a was lost: no answer", "a")


def test_a_hang_beside_a_lost_host_is_told_as_a_hang() -> None:
    reason = classify_failure(ended(code=None, hung=True, lost={"a": "no answer"}, why="it hung"))
    assert reason == RunFailure("hang", "it hung", "b")


def test_a_host_that_could_not_be_started_without_a_failure_has_no_name() -> None:
    assert classify_failure(ended("aborted", why="no start")) == RunFailure("host", "no start")


@pytest.mark.parametrize(("told_host", "named"), [("a", "a"), ("", "b")])
def test_the_host_is_that_of_the_log_else_that_of_the_failure(told_host: str, named: str) -> None:
    outcome = ended(log=ECC)
    assert outcome.cause.diagnosis is not None
    (first, *rest) = outcome.cause.diagnosis.causes
    document = replace(outcome.cause.diagnosis, causes=(replace(first, host=told_host), *rest))
    reason = classify_failure(replace(outcome, cause=replace(outcome.cause, diagnosis=document)))
    assert isinstance(reason, RunFailure)
    assert reason.host == named


@pytest.mark.parametrize(
    ("log", "code", "explained"), [(ECC, 1, True), (NCCL, 1, True), (WATCHDOG, 1, True), ("", -9, False)]
)
def test_words_of_the_log_are_added_where_they_say_more_than_the_end(
    log: str, code: int, *, explained: bool
) -> None:
    reason = classify_failure(ended(log=log, code=code, why="rank 1 failed"))
    assert isinstance(reason, RunFailure)
    assert reason.description.startswith("rank 1 failed")
    assert (reason.description != "rank 1 failed") is explained


@pytest.mark.parametrize(("seconds", "is_stuck"), [(60.0, True), (60.5, False)])
@pytest.mark.parametrize("known", [(False, False), (True, False), (False, True)])
def test_where_checkpoints_are_not_known_on_both_sides_a_minute_decides(
    known: tuple[bool, bool], seconds: float, *, is_stuck: bool
) -> None:
    before, now = (start(checkpoint_known=each) for each in known)
    assert (is_crash_loop((before,), replace(now, seconds=seconds)) is not None) is is_stuck


def test_times_are_words_up_to_twice() -> None:
    assert [format_count(count) for count in (1, 2, 3)] == ["once", "twice", "3 times"]
