"""Events of runs, and what a run makes of them."""

from collections.abc import Iterable
from typing import Any

from launcher.follow.events import HostEnded, HostReport, HostStarted, RunEvent
from launcher.follow.outcome import Outcome, build_outcome
from launcher.follow.run_state import Action, Notify, RunState, StopHosts
from tests.launcher.run_plans import NOWHERE, plan

CPU = (None,)


def host_report(host: str, event: str, at: float = 1.0, **fields: Any) -> HostReport:
    return HostReport(host, event, fields, at)


def ended(host: str, **end: object) -> HostEnded:
    return HostEnded(host, {"phase": "ended", "exit": {"remaining_pids": [], "port_free": True, **end}})


def placed(host: str, rank: int, world: int, **fields: Any) -> HostReport:
    what = {"world_size": world, "world_rank": rank, "device": "cpu", "gpu": "", **fields}
    return host_report(host, "state", rank=rank, **what)


def replay(watch: RunState, history: Iterable[RunEvent]) -> list[Action]:
    return [action for event in history for action in watch.handle(event)]


def come_to(watch: RunState) -> Outcome:
    assert watch.done
    return build_outcome(watch, NOWHERE, 1.0, 1)


def stops(actions: Iterable[Action]) -> list[StopHosts]:
    return [action for action in actions if isinstance(action, StopHosts)]


def said(actions: Iterable[Action]) -> str:
    return "\n".join(action.text for action in actions if isinstance(action, Notify))


GOOD: list[RunEvent] = [
    HostStarted("a", "/r"),
    HostStarted("b", "/r"),
    placed("a", 0, 2, mixed_precision="no"),
    placed("b", 1, 2, mixed_precision="no"),
    host_report("a", "rank_exit", rank=0, code=0),
    host_report("b", "rank_exit", rank=1, code=0),
    host_report("a", "launcher_exit", code=0),
    host_report("b", "launcher_exit", code=0),
    ended("a"),
    ended("b"),
]


def quiet(host: str, seconds: float, at: float, timeout_s: float | None = 600.0) -> HostReport:
    return host_report(host, "idle", at, seconds=seconds, timeout_s=timeout_s)


def over(*history: RunEvent) -> Outcome:
    watch = RunState(plan(CPU, CPU))
    replay(watch, history)
    return build_outcome(watch, NOWHERE, 12.34, 1)


def failed() -> Outcome:
    return over(
        host_report(
            "b",
            "exception",
            2.0,
            rank=1,
            type="ValueError",
            message="no",
            location="/x.py:3",
            tail=["a", "b"],
        ),
        host_report("b", "rank_exit", 2.1, rank=1, code=1),
        host_report("a", "rank_exit", 2.2, rank=0, code=-15, stopping=True),
        ended("a"),
        ended("b"),
    )


def introduced(host: str, rank: int) -> HostReport:
    return host_report(host, "rank", rank=rank, local_rank=0, world_size=2, pid=5, ticks=6)
