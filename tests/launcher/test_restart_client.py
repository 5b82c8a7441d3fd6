"""The client of a launch, when others have decided of its next start; and the order of a restart."""

import io
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launcher.config.disconnect_options import DisconnectOptions
from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.errors import ConnectionLost
from launcher.follow.outcome import Outcome
from launcher.follow.protocol import FrameReader
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.launch.signals import choose_detach
from launcher.remote.connection_pool import ConnectionPool
from launcher.restart import on_host, restart_lock, restarter, start_chain
from launcher.restart.context import RestartContext
from launcher.restart.decision import NoRestart
from launcher.restart.restart_lock import Hold, OtherStart, RestartHold
from launcher.restart.restart_order import LoopHistory, RestartOrder, build_spec, parse_history, read_order
from launcher.restart.restarter import RestartLoop
from launcher.runs.access import RunAccess
from launcher.runs.remote_run import RemoteRun
from launcher.terminal.screen import Screen
from launcher.transports.base import Connection, Stream
from preflight.errors import BadInput
from preflight.facts.host import KernelLog
from preflight.job import Job
from tests.launcher.restart_cases import ended, entries
from tests.launcher.test_restart_decision import start


def loop_with(monkeypatch: pytest.MonkeyPatch, found: object, theirs: Outcome | None = None) -> RestartLoop:
    """Return the loop of a client that gets this when it asks for the right to start a run again."""
    monkeypatch.setattr(restarter, "take_hold", lambda *_, **__: found)
    launch = LaunchRequest(entries=entries("a", "b"), job=Job(name="j"), connections=ConnectionPool(refuse))
    means = RestartContext(
        RestartOptions(max=1), (), lambda _: None, lambda _: None, follow_other=lambda _: theirs
    )
    return RestartLoop(launch, Screen(io.StringIO()), means)


def refuse(entry: HostEntry) -> Connection:
    raise AssertionError(f"{entry.name} is not to be opened")


def test_a_client_that_comes_late_follows_the_start_that_others_have_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = replace(ended(code=-9), run_dirs={"a": "/r"}, directory=tmp_path)
    theirs = ended("finished")
    other = OtherStart("r-20260101-000000-abcdef")
    assert loop_with(monkeypatch, other, theirs).decide(failed) is theirs
    left = loop_with(monkeypatch, other).decide(failed)
    assert isinstance(left, Outcome)
    assert (left.verdict, left.exit_code) == ("detached", 0)


def test_a_host_leaves_a_start_that_others_have_made_to_them(tmp_path: Path) -> None:
    run, means = cast("RemoteRun", SimpleNamespace(started=0.0)), on_host.build_context(ORDER, tmp_path)
    to = cast("RunAccess", SimpleNamespace(entries=ORDER.entries, open_known=refuse))
    with start_chain.restart_loop(ORDER, run, to, means) as loop:
        assert loop._means.follow_other("r-20260101-000000-abcdef") is None


def test_a_run_that_was_stopped_while_it_waited_stays_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = replace(ended(code=-9), run_dirs={"a": "/r"}, directory=tmp_path)
    whole = loop_with(monkeypatch, NoRestart("stopped by ada@pc")).decide(failed)
    assert isinstance(whole, Outcome)
    assert whole.restarts is not None
    assert (whole.restarts.stop_reason, whole.restarts.count) == ("stopped by ada@pc", 0)


@pytest.mark.parametrize(("raised", "name"), [((), "Ctrl-C"), (("SIGTERM",), "SIGTERM")])
def test_a_stop_just_before_the_next_start_is_noted_where_another_one_would_follow(
    monkeypatch: pytest.MonkeyPatch, raised: tuple[str, ...], name: str
) -> None:
    class Held:
        noted = ""

        def end(self, why: str) -> bool:
            self.noted = why
            return True

        def close(self) -> None:
            assert self.noted, "the host starts it again"

    held = Held()
    loop = loop_with(monkeypatch, None)
    loop._hold = cast("Hold", held)
    loop.__exit__(KeyboardInterrupt, KeyboardInterrupt(*raised), None)
    assert held.noted == f"stopped by {name}"


def test_the_client_takes_the_right_of_a_main_host_that_was_lost_and_answers_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = SimpleNamespace(write=lambda _: None, close=lambda: None)
    held = RestartHold(HostEntry("a"), cast("Connection", stream), cast("Stream", stream), FrameReader())
    loop = loop_with(monkeypatch, held)
    lost = replace(ended(code=-9), run_dirs={"a": "/r"}, directory=tmp_path)
    lost = replace(lost, cleanup=replace(lost.cleanup, lost={lost.plan.nodes[0].host: "no answer"}))
    assert loop._resume(lost) is None
    assert loop._hold is None
    assert loop._resume(lost, is_back=True) is None
    assert loop._hold is held
    loop.close()


ASKS = FollowOptions(choose=choose_detach)


@pytest.mark.parametrize(
    ("follow", "verdict", "words"),
    [(FollowOptions(), "interrupted", ""), (ASKS, "detached", "gpulaunch stop r1 ends it")],
)
def test_a_signal_before_the_right_is_held_means_what_it_means_in_the_pause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, follow: FollowOptions, verdict: str, words: str
) -> None:
    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def stop_on(run_id: str, hosts: Sequence[HostEntry], *_: object, **__: object) -> list[dict[str, Any]]:
        stopped.append((run_id, [host.name for host in hosts]))
        return [{"next": {"state": "ended"}}]

    stopped: list[tuple[str, list[str]]] = []
    loop = loop_with(monkeypatch, None)
    loop._launch = replace(loop._launch, follow=follow)
    loop._screen = Screen(said := io.StringIO())
    monkeypatch.setattr(restarter, "take_hold", press)
    monkeypatch.setattr(restart_lock, "stop_run", stop_on)
    failed = replace(ended(code=-9), run_dirs={"a": "/r"}, directory=tmp_path)
    whole = loop.decide(failed)
    assert isinstance(whole, Outcome)
    assert whole.verdict == verdict
    run_id = failed.plan.run_id
    assert stopped == ([(run_id, ["a"])] if verdict == "interrupted" else [])  # or its host starts it again
    assert words.replace("r1", run_id) in said.getvalue()


def test_a_right_that_was_lost_is_asked_for_again_at_the_start_that_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Lost:
        def confirm(self) -> bool:
            return False

        def close(self) -> None:
            pass

    def take(run_id: str, *_: object, **__: object) -> NoRestart:
        asked.append(run_id)
        return NoRestart("stopped by ada@pc")

    asked: list[str] = []
    loop = loop_with(monkeypatch, None)
    monkeypatch.setattr(restarter, "take_hold", take)
    failed = replace(ended(code=-9), run_dirs={"a": "/r"}, directory=tmp_path)
    refused = replace(failed, run_dirs={}, plan=replace(failed.plan, run_id="refused"))
    loop._last, loop._hold = failed, cast("Hold", Lost())  # as `decide` and `_resume` have left them
    assert loop._confirm(refused) is not None
    assert asked == [failed.plan.run_id]


def test_a_link_that_breaks_while_another_one_decides_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object, **__: object) -> tuple[None, dict[str, Any]]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None, answer

    going = {"kept": True, "next": {"state": "restarting", "by": "host"}}
    made = {"kept": False, "next": {"state": "restarted", "run_id": "r-20260101-000000-abcdef"}}
    broken = ConnectionLost("a", "ended without an answer")
    answers: list[Any] = [going, broken, broken, going, broken, made]
    monkeypatch.setattr(restart_lock, "_ask", ask)
    monkeypatch.setattr(restart_lock, "POLL_S", 0.0)
    found = restart_lock.take_hold("r", HostEntry("a"), refuse, lambda _: None)
    assert found == OtherStart("r-20260101-000000-abcdef")
    answers = [broken] * restart_lock.TRIES
    with pytest.raises(ConnectionLost):
        restart_lock.take_hold("r", HostEntry("a"), refuse, lambda _: None)


def test_a_clock_that_is_set_back_makes_no_checkpoint_older_than_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launch = LaunchRequest(entries=entries("a"), job=Job(name="j"), connections=ConnectionPool(refuse))
    means = RestartContext(
        RestartOptions(max=1), (), lambda _: None, lambda _: None, follow_other=lambda _: None
    )
    loop = RestartLoop(launch, Screen(io.StringIO()), means, history=LoopHistory(elapsed_s=60.0))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    spec = loop._with_order(CheckedLaunch(launch, cast("PreflightResult", None), None)).launch.restart
    assert spec is not None
    assert 60.0 <= read_order(spec.order, [spec.known]).history.elapsed_s < 3660.0


# what a restart needs, on its way through the memory of a host

ORDER = RestartOrder(
    entries=(HostEntry("a", address="10.0.0.1", env={"TOKEN": "x"}, ignore=frozenset({"NET003"})),),
    spares=(HostEntry("s"),),
    job=Job(
        name="j", script="t.py", gpus=(0, "GPU-1"), env={"K": "v"}, accelerate_config={"a": [1, {"b": 2}]}
    ),
    options=RestartOptions(max=2, retry_on=("oom",)),
    disconnect=DisconnectOptions(),
    history=LoopHistory((replace(start(), changes=("x",)),), 1, 1, 60.0, "checkpoint-5"),
    kernel_logs={"a": KernelLog("kmsg", (), (), ("x",))},
    extra_files=(("source.json", "{}"),),
)


def test_an_order_comes_back_as_it_was() -> None:
    spec = build_spec(ORDER, after="r")
    assert read_order(spec.order, [spec.known, spec.known]) == ORDER
    assert "TOKEN" not in json.dumps(spec.known)
    history = parse_history(spec.known, "no")
    assert history is not None
    assert (history.max, history.starts) == (2, ORDER.history.starts)


@pytest.mark.parametrize("known", [{"digest": "0" * 64}, {}, None])
def test_an_order_that_not_every_host_confirms_is_not_believed(known: object) -> None:
    spec = build_spec(ORDER, after="")
    with pytest.raises(BadInput, match="do not agree"):
        read_order(spec.order, [spec.known, known])


@pytest.mark.parametrize(
    ("launched_here", "heard", "who"),
    [
        (True, {}, "n-[02-03]"),
        (False, {"n-02": None, "n-03": None}, "n-[02-03]"),
        (False, {}, "a host that this machine does not know"),
    ],
)
def test_hosts_that_do_not_answer_are_why_an_attached_client_starts_nothing(
    launched_here: object, heard: dict[str, None], who: str, tmp_path: Path
) -> None:
    spec = build_spec(ORDER, after="")
    record, missing = (object(), ["n-02", "n-03"]) if launched_here else (None, ["unknown"])
    run = SimpleNamespace(missing=missing, record=record, unheard=heard, spec={"restart": spec.known})
    found = cast("RemoteRun", run)
    hold = cast("RestartHold", SimpleNamespace(order=spec.order))
    failed = replace(ended(code=-9), directory=tmp_path)
    means = on_host.build_context(ORDER, tmp_path)
    whole = start_chain._continue(found, cast("RunAccess", None), failed, hold, means)
    assert whole.restarts is not None
    why = f"{who} cannot be asked what was launched; gpulaunch attach once it answers"
    assert whole.restarts.stop_reason == why
