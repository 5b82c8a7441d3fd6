"""Histories of runs replayed: what is said, who is stopped, what the exit code is."""

from typing import Any

import pytest

from launcher.config.disconnect_options import DEFAULT_GRACE_S
from launcher.follow.events import (
    Disconnected,
    HostEnded,
    HostLost,
    HostStarted,
    Interrupted,
    Reconnected,
    RunEvent,
    StartRefused,
)
from launcher.follow.failures import is_port_conflict
from launcher.follow.run_state import FAILURE_GRACE_S, RunState, StopHosts
from launcher.report.outcome import render_outcome
from tests.launcher.run_events import CPU, GOOD, come_to, ended, host_report, replay, said, stops
from tests.launcher.run_plans import plan


def test_a_good_run_says_once_that_it_is_as_planned_and_stops_nobody() -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(watch, GOOD)
    assert said(actions).splitlines() == [
        "2 ranks as planned: world size 2, on the CPU",
        "mixed precision no in every rank, as planned",
    ]
    assert stops(actions) == []
    outcome = come_to(watch)
    assert (
        outcome.verdict,
        outcome.exit_code,
        outcome.verification.devices_verified,
        outcome.cleanup.is_clean,
    ) == ("finished", 0, True, True)


def test_launchers_fall_silent_once_every_rank_has_ended_well() -> None:
    last = next(i for i, event in enumerate(GOOD) if event == GOOD[-5])
    watch = RunState(plan(CPU, CPU))
    replay(watch, GOOD[:last])
    assert not watch.all_ranks_fine
    replay(watch, GOOD[last : last + 1])
    assert watch.all_ranks_fine


def test_the_first_failing_rank_stops_every_host_and_gives_the_exit_code() -> None:
    watch = RunState(plan(CPU, CPU))
    first = replay(watch, [*GOOD[:4], host_report("b", "rank_exit", 5.0, rank=1, code=7, stopping=False)])
    assert stops(first) == [
        StopHosts(("a", "b"), FAILURE_GRACE_S, "rank 1 on b failed with exit code 7", failed=True)
    ]
    later: list[RunEvent] = [
        host_report("a", "rank_exit", 5.2, rank=0, code=-15, stopping=True),
        host_report("a", "launcher_exit", 5.3, code=1),
        ended("a"),
        ended("b"),
    ]
    assert stops(replay(watch, later)) == []
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code) == ("failed", 7)


def test_the_cause_is_the_first_in_time_not_the_first_to_arrive() -> None:
    watch = RunState(plan(CPU, CPU))
    replay(
        watch,
        [
            host_report("b", "rank_exit", 5.0, rank=1, code=3),
            host_report("a", "rank_exit", 4.9, rank=0, code=9),
        ],
    )
    replay(watch, [ended("a"), ended("b")])
    assert come_to(watch).exit_code == 9


def test_a_rank_that_died_of_its_peers_death_is_not_the_cause() -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        host_report("a", "exception", 4.0, rank=0, **_ECHO),
        host_report("a", "rank_exit", 4.1, rank=0, code=1),
        host_report("b", "rank_exit", 4.2, rank=1, code=-9),
        ended("a"),
        ended("b"),
    ]
    replay(watch, history)
    outcome = come_to(watch)
    assert outcome.cause.failure is not None
    assert (outcome.cause.failure.rank, outcome.exit_code) == (1, 137)


_ECHO: dict[str, Any] = {"type": "RuntimeError", "message": "[gloo] Connection closed by peer [10.0.0.2]:1"}
_OOM: dict[str, Any] = {
    "type": "OutOfMemoryError",
    "message": "CUDA out of memory. Tried to allocate 2.50 GiB.",
}
_BUG: dict[str, Any] = {"type": "ValueError", "message": "bad batch"}


@pytest.mark.parametrize(
    ("first", "other", "raised_at", "code", "cause"),
    [
        pytest.param(_ECHO, _OOM, 3.9, 1, 1, id="raised before the echo, ended after it"),
        pytest.param(_ECHO, _OOM, 4.5, 1, 1, id="reported after the echo, before its rank ended"),
        pytest.param(_ECHO, _OOM, 3.9, -15, 1, id="ended by our own SIGTERM while it wound down"),
        pytest.param(_ECHO, _BUG, 5.2, 1, 0, id="raised by a handler of our own SIGTERM"),
        pytest.param(_BUG, _OOM, 3.9, 1, 1, id="raised before another exception"),
        pytest.param(_BUG, _OOM, 4.5, 1, 0, id="raised after another exception"),
        pytest.param({}, _BUG, 3.9, 1, 0, id="raised by the launcher's SIGTERM, the killed rank seen late"),
    ],
)
def test_what_a_rank_raised_counts_though_another_one_ended_first(
    first: dict[str, Any], other: dict[str, Any], raised_at: float, code: int, cause: int
) -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        host_report("b", "exception", raised_at, rank=1, **other),
        *([host_report("a", "exception", 4.0, rank=0, **first)] if first else []),
        host_report("a", "rank_exit", 5.0, rank=0, code=1 if first else -9),
        host_report("b", "rank_exit", 5.3, rank=1, code=code, stopping=True),
        ended("a"),
        ended("b"),
    ]
    assert len(stops(replay(watch, history))) == 1
    failure = come_to(watch).cause.failure
    assert failure is not None
    assert failure.rank == cause


@pytest.mark.parametrize(
    ("early", "error", "named"),
    [
        ({"code": 0, "at": 3.9}, _ECHO, True),
        ({"code": 0, "at": 4.5}, _ECHO, False),
        ({"code": 1, "at": 3.9}, _ECHO, False),
        ({"code": 0, "at": 3.9}, _BUG, False),
    ],
)
def test_a_rank_that_ended_well_before_another_lost_it_is_named(
    early: dict[str, Any], error: dict[str, Any], *, named: bool
) -> None:
    watch = RunState(plan(CPU, CPU))
    history: list[RunEvent] = [
        host_report("b", "script_exit", early["at"], rank=1, code=early["code"]),
        host_report("a", "exception", 4.0, rank=0, **error),
        host_report("b", "rank_exit", 4.8, rank=1, code=0),
        host_report("a", "rank_exit", 5.0, rank=0, code=1),
        ended("a"),
        ended("b"),
    ]
    replay(watch, history)
    outcome = come_to(watch)
    failure = outcome.cause.failure
    assert failure is not None
    assert (failure.rank, outcome.exit_code) == (0, 1)
    assert failure.early_end == ("the script of rank 1 on b had ended with exit code 0" if named else "")
    assert outcome.why.startswith(
        "the script of rank 1 on b had ended with exit code 0 before rank 0 on a failed"
        if named
        else "rank 0 on a failed"
    )


@pytest.mark.parametrize(
    ("message", "tail", "shown"),
    [
        ("bad\nmore", ["ValueError: bad", "more"], "bad"),
        (
            "Caught OSError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n",
            ["OSError: [Errno 28] No space left on device", ""],
            "Caught OSError in DataLoader worker process 0: OSError: [Errno 28] No space left on device",
        ),
        ("Caught OSError in replica 0 on device 0.", [], "Caught OSError in replica 0 on device 0"),
        ("", [], ""),
    ],
)
def test_what_a_worker_raised_is_the_reason(message: str, tail: list[str], shown: str) -> None:
    watch = RunState(plan(CPU))
    history: list[RunEvent] = [
        host_report("a", "exception", rank=0, type="OSError", message=message, tail=tail),
        host_report("a", "rank_exit", rank=0, code=1),
        ended("a"),
    ]
    replay(watch, history)
    expected = f"rank 0 on a failed with exit code 1: OSError: {shown}"
    assert come_to(watch).why == expected.removesuffix(": ")


def test_the_exception_is_told_with_its_place_and_last_lines() -> None:
    watch = RunState(plan(CPU))
    error: dict[str, Any] = {
        "type": "ValueError",
        "message": "bad\nmore",
        "location": "/x.py:3",
        "tail": ["Traceback", "ValueError: bad"],
    }
    replay(
        watch,
        [
            host_report("a", "exception", rank=0, **error),
            host_report("a", "rank_exit", rank=0, code=1),
            ended("a"),
        ],
    )
    cause = come_to(watch).cause.failure
    assert cause is not None
    assert cause.summary == "rank 0 on a failed with exit code 1: ValueError: bad"
    assert (cause.location, cause.last_lines) == ("/x.py:3", ("Traceback", "ValueError: bad"))


def test_ctrl_c_once_stops_gently_twice_kills_and_is_130() -> None:
    watch = RunState(plan(CPU, CPU))
    (gentle, *_) = stops(replay(watch, [Interrupted()]))
    assert gentle == StopHosts(("a", "b"), DEFAULT_GRACE_S, "Ctrl-C")
    replay(watch, [host_report("a", "rank_exit", rank=0, code=-15, stopping=True), ended("a")])
    (hard, *_) = stops(replay(watch, [Interrupted()]))
    assert hard == StopHosts(("b",), 0.0, "Ctrl-C twice")
    assert stops(replay(watch, [Interrupted()])) == []
    replay(watch, [ended("b")])
    assert come_to(watch).exit_code == 130


def test_ctrl_c_after_a_failure_keeps_the_failures_code() -> None:
    watch = RunState(plan(CPU))
    replay(watch, [host_report("a", "rank_exit", rank=0, code=3), Interrupted(), ended("a")])
    assert come_to(watch).exit_code == 3


@pytest.mark.parametrize(
    ("code", "what"),
    [(-9, "the supervisor was killed"), (1, "the supervisor failed (supervisor.log says why)")],
)
def test_a_supervisor_that_failed_is_not_called_killed(code: int, what: str) -> None:
    watch = RunState(plan(CPU))
    replay(watch, [host_report("a", "supervisor_died", code=code), ended("a")])
    assert watch.root_cause is not None
    assert watch.root_cause.summary == f"a: {what}"


def test_a_lost_host_stops_the_others_and_is_5() -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(
        watch,
        [
            HostStarted("a", ""),
            HostStarted("b", ""),
            Disconnected("b", "reset"),
            HostLost("b", "not reached"),
        ],
    )
    assert stops(actions) == [StopHosts(("a",), FAILURE_GRACE_S, "b was lost", failed=True)]
    replay(watch, [ended("a")])
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code, outcome.cleanup.is_clean) == ("aborted", 5, False)


def test_of_a_host_that_came_back_with_a_new_disk_no_command_is_named_that_finds_nothing() -> None:
    watch = RunState(plan(CPU, CPU))
    replay(watch, [*GOOD[:4], HostLost("b", "this host has nothing of it", forgotten=True), ended("a")])
    lines = list(render_outcome(come_to(watch)))
    shows = "gpulaunch clean-zombies b shows whether anything of it is left"
    assert f"b was lost (this host has nothing of it); {shows}" in lines
    assert [each.partition(":")[0][-4:] for each in lines if "gpulaunch fetch" in each] == ["on a"]


def test_a_host_that_answers_and_does_not_end_is_named_with_its_ranks_and_what_to_type() -> None:
    watch = RunState(plan(CPU, CPU))
    lost = HostLost("b", "has not ended 66 s after it was asked to", still_running=True, answers=True)
    actions = replay(watch, [*GOOD[:4], Interrupted(), ended("a"), lost])
    assert "b: has not ended 66 s after it was asked to" in said(actions).splitlines()
    outcome = come_to(watch)
    assert (outcome.exit_code, outcome.cleanup.still_running) == (130, ("b",))
    (line,) = (each for each in render_outcome(outcome) if each.startswith("b "))
    assert line.startswith(
        "b has not ended 66 s after it was asked to; rank 1 has not ended; gpulaunch stop "
    )


def test_a_connection_that_comes_back_is_told_and_stops_nobody() -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(watch, [Disconnected("b", "reset"), Disconnected("b", "refused"), Reconnected("b")])
    assert stops(actions) == []
    assert said(actions).count("connection lost") == 1


def test_a_host_that_no_waiting_opens_again_is_named_once_with_what_to_do() -> None:
    watch = RunState(plan(CPU, CPU))
    changed = Disconnected("b", "ITS HOST KEY HAS CHANGED", "ask its administrator", is_final=True)
    actions = replay(watch, [Disconnected("b", "reset"), changed, changed, Disconnected("b", "refused")])
    assert said(actions).splitlines()[1:] == [
        "b: not connected again: ITS HOST KEY HAS CHANGED; ask its administrator"
    ]
    assert said(replay(watch, [Reconnected("b"), changed])).count("HOST KEY") == 1


def test_a_host_that_refuses_to_start_stops_the_others() -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(watch, [HostStarted("a", ""), StartRefused("b", "no space", "make room")])
    assert stops(actions) == [StopHosts(("a",), FAILURE_GRACE_S, "b: no space", failed=True)]
    replay(watch, [ended("a")])
    assert (come_to(watch).exit_code, come_to(watch).why) == (5, "b: no space; fix: make room")


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (None, "its supervisor is gone without a word; was the host restarted?"),
        ("host", "its host was restarted"),
        ("container", "its container was restarted"),
        ("killed", "its supervisor and guardian were killed; its host was not restarted"),
    ],
)
def test_a_supervisor_that_vanished_is_a_failure_and_proves_nothing_ended(
    loss: str | None, words: str
) -> None:
    watch = RunState(plan(CPU, CPU))
    actions = replay(watch, [HostEnded("b", {"phase": "running", "loss": loss})])
    assert stops(actions)[0].hosts == ("a",)
    replay(watch, [ended("a")])
    outcome = come_to(watch)
    lines = list(render_outcome(outcome))
    assert outcome.exit_code == 5
    assert lines[0].startswith(f"root cause: b was lost: {words}")
    assert lines[-1].startswith("lost (exit code 5)")
    assert "b: not confirmed that nothing of the run is left: gpulaunch clean-zombies b" in lines
    assert not any("no process of the run is left" in line for line in lines)


def test_processes_that_cannot_be_ended_are_named() -> None:
    watch = RunState(plan(CPU))
    actions = replay(watch, [ended("a", remaining_pids=[17, 18])])
    assert "17, 18" in said(actions)
    assert come_to(watch).cleanup.remaining_pids == {"a": (17, 18)}


def test_a_launcher_that_fails_before_any_rank_is_5_with_its_words() -> None:
    watch = RunState(plan(CPU))
    replay(watch, [host_report("a", "launcher_exit", code=1), ended("a")])
    assert (come_to(watch).verdict, come_to(watch).exit_code) == ("failed", 5)


def test_a_rank_whose_end_was_not_seen_is_no_failure_of_its_own() -> None:
    watch = RunState(plan(CPU))
    assert replay(watch, [host_report("a", "rank_exit", rank=0, code=None)]) == []


def test_garbage_in_events_changes_nothing() -> None:
    watch = RunState(plan(CPU))
    strange = [
        host_report("a", "state", rank="x"),
        host_report("a", "rank_exit", rank=None, code=1),
        host_report("a", "nonsense", rank=0),
        host_report("a", "exception", rank=0, tail=5, message=None),
        host_report("a", "rank_exit", rank=0, code="x"),
    ]
    assert [a for a in replay(watch, strange) if isinstance(a, StopHosts)][1:] == []


def test_a_taken_port_is_recognised_in_what_torch_and_accelerate_say() -> None:
    torch = "DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"  # noqa: E501 - as printed
    accelerate = "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it."  # noqa: E501 - as printed
    assert is_port_conflict([torch])
    assert is_port_conflict([accelerate])
    assert not is_port_conflict(["RuntimeError: CUDA error: out of memory"])


def test_a_failure_that_no_event_told_is_taken_from_the_last_state() -> None:
    watch = RunState(plan(CPU))
    replay(watch, [HostStarted("a", "/r"), ended("a", ranks={"0": 3}, launcher_code=1, why="")])
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code) == ("failed", 5)
    assert [end.code for end in outcome.ranks] == [3]
    assert "the launcher on a failed with exit code 1" in outcome.why


def test_an_end_by_another_signal_is_not_called_ctrl_c() -> None:
    """`scancel` and a terminal that is closed: SIGTERM, SIGHUP."""
    watch = RunState(plan(CPU))
    (stop,) = stops(replay(watch, [Interrupted("SIGTERM")]))
    assert stop.why == "SIGTERM"
    replay(watch, [ended("a")])
    assert (come_to(watch).why, come_to(watch).exit_code) == ("SIGTERM", 130)
