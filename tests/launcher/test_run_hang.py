"""A run that hangs, is killed or lost: what its clients conclude of silence and of signals."""

import pytest

from launcher.follow.events import HostStarted, RunEvent, Tick
from launcher.follow.failure_diagnosis import diagnose_kept_run
from launcher.follow.run_state import FAILURE_GRACE_S, RunState, StopHosts
from tests.launcher.run_events import CPU, come_to, ended, host_report, quiet, replay, said, stops
from tests.launcher.run_plans import plan


def test_a_run_hangs_when_nothing_lives_on_any_host() -> None:
    watch = RunState(plan(CPU, CPU))
    early = replay(
        watch, [HostStarted("a", "/r"), HostStarted("b", "/r"), quiet("a", 605, 1000.0), Tick(1001.0)]
    )
    assert stops(early) == []
    actions = replay(watch, [quiet("b", 601, 1002.0), Tick(1003.0)])
    assert stops(actions) == [
        StopHosts(("a", "b"), FAILURE_GRACE_S, watch.stopping, stacks=True, failed=True)
    ]
    assert watch.stopping.endswith("no use of GPU or CPU on any host for 601 s")
    history = [host_report(host, "rank_exit", 1010.0, rank=n, code=-15) for n, host in enumerate("ab")]
    replay(watch, [*history, ended("a"), ended("b")])
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code) == ("failed", 124)


def test_a_host_that_lives_keeps_the_quiet_ones_running() -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        quiet("a", 605, 1000.0),
        quiet("b", 601, 1001.0),
        host_report("a", "active", 1002.0),
        Tick(1003.0),
    ]
    actions = replay(watch, history)
    assert stops(actions) == []
    assert "a: active again" in said(actions)


def test_quiet_that_is_read_from_the_past_ends_nothing() -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [quiet("a", 605, 1000.0), quiet("b", 605, 1000.0), Tick(5000.0)]
    assert stops(replay(watch, history)) == []


def test_a_host_whose_ranks_have_ended_is_not_waited_for() -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        host_report("a", "rank_exit", rank=0, code=0),
        quiet("b", 605, 1000.0),
        Tick(1001.0),
    ]
    assert stops(replay(watch, history))[0].stacks


def test_a_single_host_decides_for_itself_and_is_believed() -> None:
    watch = RunState(plan(CPU))
    assert stops(replay(watch, [quiet("a", 605, 1000.0), Tick(1001.0)])) == []
    (stop,) = stops(replay(watch, [host_report("a", "hung", 1002.0, why="hung: nothing for 605 s")]))
    assert stop.stacks
    replay(watch, [host_report("a", "rank_exit", 1003.0, rank=0, code=1, stopping=True), ended("a")])
    assert come_to(watch).exit_code == 124
    assert watch.root_cause is not None
    assert watch.root_cause.summary == "hung: nothing for 605 s"


def test_without_a_timeout_quiet_is_only_said() -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [quiet("a", 605, 1000.0, None), quiet("b", 605, 1000.0, None), Tick(1001.0)]
    actions = replay(watch, history)
    assert stops(actions) == []
    assert "b: no output, no step, no use of GPU or CPU for 605 s" in said(actions)


@pytest.mark.parametrize(
    ("limit", "bound"),
    [
        ({}, ""),
        ({"limit": 0}, ""),
        ({"limit": 8 << 30}, ": its control group may use 8.0 GiB, and has used them"),
    ],
)
def test_a_kill_for_want_of_memory_is_told_as_that(limit: dict[str, int], bound: str) -> None:
    watch = RunState(plan(CPU, CPU))
    oom = host_report("b", "oom", 9.8, count=1, scope="group", **limit)
    replay(watch, [oom, host_report("b", "rank_exit", 10.0, rank=1, code=-9), ended("a"), ended("b")])
    outcome = come_to(watch)
    assert outcome.exit_code == 137
    assert outcome.why == (
        "rank 1 on b was ended by the kernel's OOM killer (SIGKILL): its memory ran out" + bound
    )
    assert watch.root_cause is not None
    assert "out-of-memory kill" in watch.root_cause.kernel_oom
    assert bound in watch.root_cause.kernel_oom


@pytest.mark.parametrize("ended_last", ["rank_exit", "launcher_exit"])
@pytest.mark.parametrize(("counted", "found"), [(True, "terminated"), (False, "host-oom-killed")])
def test_a_sigkill_beside_a_count_that_did_not_rise_is_not_the_kernels(
    *, counted: bool, found: str, ended_last: str
) -> None:
    watch = RunState(plan(CPU))
    rank = {"rank": 0} if ended_last == "rank_exit" else {}
    replay(watch, [host_report("a", ended_last, 10.0, code=-9, oom_counted=counted, **rank), ended("a")])
    assert watch.root_cause is not None
    assert diagnose_kept_run((), watch.root_cause).verdict == found


def test_a_kill_for_want_of_memory_somewhere_on_the_host_is_told_with_its_doubt() -> None:
    watch = RunState(plan(CPU))
    oom = host_report("a", "oom", 9.8, count=1, scope="host")
    replay(watch, [oom, host_report("a", "rank_exit", 10.0, rank=0, code=-9), ended("a")])
    assert "signal 9 (SIGKILL); the kernel counted an out-of-memory kill on this host" in come_to(watch).why


def test_a_kill_long_before_on_another_host_or_of_another_kind_is_not() -> None:
    for oom in (
        host_report("a", "oom", 1.0, count=1, scope="group"),
        host_report("b", "oom", 9.9, count=1, scope="group"),
    ):
        watch = RunState(plan(CPU, CPU))
        replay(watch, [oom, host_report("a", "rank_exit", 10.0, rank=0, code=-9), ended("a"), ended("b")])
        assert come_to(watch).why == "rank 0 on a was ended by signal 9 (SIGKILL)"
    watch = RunState(plan(CPU))
    oom = host_report("a", "oom", 9.9, count=1, scope="group")
    replay(watch, [oom, host_report("a", "rank_exit", 10.0, rank=0, code=1), ended("a")])
    assert come_to(watch).why == "rank 0 on a failed with exit code 1"
