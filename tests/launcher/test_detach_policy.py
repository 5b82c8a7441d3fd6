"""When a detached run may be left, and what a run followed by us does when somebody else stops it."""

from dataclasses import replace

from launcher.follow.detach_policy import (
    ACK_TIMEOUT_S,
    COMPARE_S,
    LONE_RANK_TIMEOUT_S,
    NO_WORLD_TIMEOUT_S,
    RETRY_S,
    VERIFY_S,
    DetachPolicy,
)
from launcher.follow.events import Disconnected, HostEnded, HostLost, StartRefused
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import RunState, StopHosts
from tests.launcher.guarded_plans import FACTS, guarded
from tests.launcher.run_events import CPU, host_report, introduced, placed, replay, said, stops
from tests.launcher.run_plans import NOWHERE, plan


def test_a_detached_run_is_left_once_ranks_are_as_planned_and_every_host_has_promised() -> None:
    watch = RunState(plan(CPU, CPU))
    departure = DetachPolicy(watch, 0.0)
    assert departure.step(1.0) == "wait"
    replay(watch, [placed("a", 0, 2)])
    assert departure.step(2.0) == "wait"
    replay(watch, [placed("b", 1, 2)])
    assert departure.step(3.0) == "detach"
    assert departure.step(3.1) == "wait"
    replay(watch, [host_report("a", "detached")])
    assert departure.step(3.2) == "wait"
    replay(watch, [host_report("b", "detached")])
    assert departure.step(3.3) == "leave"


def test_guarded_ranks_are_compared_before_they_are_left_if_they_step_in_time() -> None:
    watch = RunState(guarded("stop", CPU, CPU))
    departure = DetachPolicy(watch, 0.0)
    replay(watch, [placed("a", 0, 2), placed("b", 1, 2)])
    assert departure.step(1.0) == "wait"
    replay(watch, [host_report("a", "guard_facts", rank=0, **FACTS)])
    assert departure.step(2.0) == "wait"
    replay(watch, [host_report("b", "guard_facts", rank=1, **{**FACTS, "gpu": "GPU-1"})])
    assert departure.step(3.0) == "detach"

    late = RunState(guarded("stop", CPU, CPU))
    departure = DetachPolicy(late, 0.0)
    replay(late, [placed("a", 0, 2), placed("b", 1, 2)])
    assert departure.step(1.0) == "wait"
    assert departure.step(1.5 + COMPARE_S) == "detach"


def test_unlike_ranks_of_a_run_that_was_to_be_left_are_followed_to_their_end() -> None:
    watch = RunState(guarded("stop", CPU, CPU))
    departure = DetachPolicy(watch, 0.0)
    facts = [
        host_report("a", "guard_facts", rank=0, **FACTS),
        host_report("b", "guard_facts", rank=1, **{**FACTS, "mixed_precision": "bf16", "gpu": "GPU-1"}),
    ]
    actions = replay(watch, [placed("a", 0, 2), placed("b", 1, 2), *facts])
    assert stops(actions)
    assert departure.step(2.0) == "wait"


def test_ranks_that_set_up_no_world_are_left_after_a_while_slow_ones_later() -> None:
    quiet = RunState(plan(CPU, CPU))
    departure = DetachPolicy(quiet, 0.0)
    replay(quiet, [introduced("a", 0), introduced("b", 1)])
    assert departure.step(1.0) == "wait"
    assert departure.step(1.5 + NO_WORLD_TIMEOUT_S) == "detach"
    alone = RunState(replace(plan(CPU), engine="torchrun"))
    departure = DetachPolicy(alone, 0.0)
    replay(alone, [host_report("a", "rank", rank=0, local_rank=0, world_size=1, pid=5, ticks=6)])
    assert departure.step(1.0) == "wait"
    assert departure.step(1.5 + LONE_RANK_TIMEOUT_S) == "detach"
    slow = DetachPolicy(RunState(plan(CPU, CPU)), 0.0)
    assert slow.step(VERIFY_S) == "wait"
    assert slow.step(VERIFY_S + 1.0) == "detach"


def test_a_host_that_never_promises_is_not_waited_for_for_ever() -> None:
    watch = RunState(plan(CPU, CPU))
    departure = DetachPolicy(watch, 0.0)
    replay(watch, [placed("a", 0, 2), placed("b", 1, 2)])
    assert departure.step(1.0) == "detach"
    assert departure.step(1.5 + RETRY_S) == "detach"  # the first word may have been lost with a link
    assert departure.step(2.0 + RETRY_S) == "wait"
    assert departure.step(1.5 + ACK_TIMEOUT_S) == "leave"


def test_a_host_whose_link_breaks_before_it_promised_is_waited_for_and_a_lost_one_ends_the_run() -> None:
    watch = RunState(plan(CPU, CPU))
    departure = DetachPolicy(watch, 0.0)
    replay(watch, [placed("a", 0, 2), placed("b", 1, 2)])
    assert departure.step(1.0) == "detach"
    replay(watch, [host_report("a", "detached"), Disconnected("b", "silence")])
    assert departure.step(2.0 + ACK_TIMEOUT_S) == "detach"
    assert departure.step(3.0 + ACK_TIMEOUT_S) == "wait"
    (stop,) = stops(replay(watch, [HostLost("b", "not reached again")]))
    assert stop.hosts == ("a",)
    assert (
        departure.step(9.0 + ACK_TIMEOUT_S) == "wait"
    )  # half of it would go on alone: it is seen to its end


def test_a_run_that_is_ending_is_followed_to_its_end_and_never_left() -> None:
    for event in (
        placed("b", 1, 3),
        StartRefused("b", "no space"),
        host_report("b", "rank_exit", rank=1, code=1),
    ):
        watch = RunState(plan(CPU, CPU))
        departure = DetachPolicy(watch, 0.0)
        replay(watch, [placed("a", 0, 2), event])
        assert departure.step(VERIFY_S + 1.0) == "wait"


def test_somebody_elses_stop_ends_every_host_with_their_grace_and_is_named() -> None:
    watch = RunState(plan(CPU, CPU))
    stop = host_report("a", "stopping", why="stopped by ana@x", grace_s=300, requested=True)
    actions = replay(
        watch, [stop, host_report("b", "stopping", why="stopped by ana@x", grace_s=300, requested=True)]
    )
    assert stops(actions) == [StopHosts(("a", "b"), 300.0, "stopped by ana@x")]
    assert said(actions).count("stopped by ana@x") == 1
    ends = [
        host_report("a", "rank_exit", rank=0, code=-15, stopping=True),
        host_report("b", "rank_exit", rank=1, code=0),
    ]
    over = {"phase": "ended", "exit": {"remaining_pids": [], "port_free": True, "why": "stopped by ana@x"}}
    replay(watch, [*ends, HostEnded("a", over), HostEnded("b", over)])
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code, outcome.why) == ("interrupted", 130, "stopped by ana@x")


def test_a_supervisors_own_stop_after_a_failure_is_nobodys_wish() -> None:
    watch = RunState(plan(CPU, CPU))
    failed = host_report("a", "rank_exit", rank=0, code=3)
    stopping = host_report("a", "stopping", why="rank 0 failed with exit code 3", grace_s=3, requested=False)
    replay(watch, [failed, stopping])
    assert watch.stopped_by == ""


def test_our_own_ctrl_c_is_not_somebody_elses_stop() -> None:
    from launcher.follow.events import Interrupted  # noqa: PLC0415 - only here

    watch = RunState(plan(CPU))
    replay(watch, [Interrupted(), host_report("a", "stopping", why="Ctrl-C", grace_s=10, requested=True)])
    assert watch.stopped_by == ""
