"""A node followed for real through the local transport, by a client that takes its time."""

import dataclasses
import json
import os
import queue
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.config.disconnect_options import DisconnectOptions
from launcher.errors import ConnectionLost, HostError, NameNotResolved
from launcher.follow import protocol
from launcher.follow.awake_clock import AwakeClock
from launcher.follow.events import (
    HostEnded,
    HostLost,
    HostReport,
    HostStarted,
    LogOutput,
    Reconnected,
    RunEvent,
    StartRefused,
)
from launcher.follow.log_offsets import ResumePoint
from launcher.follow.node_client import NodeClient
from launcher.onhost.supervisor.daemon.supervised_run import answer_start
from launcher.onhost.supervisor.node import make_node_name
from launcher.onhost.supervisor.protocol import encode_frame
from launcher.transports.local import LocalConnection, LocalStream
from tests.launcher.broken_links import (
    BrokenStart,
    DeadAtFirst,
    HeldRequest,
    LateStart,
    NotedConnection,
    NotReached,
    RacingClock,
    SetAnswers,
    SetClock,
)
from tests.launcher.odd_hosts import STATE, Host, frames
from tests.launcher.onhost_driver import LAUNCHER
from tests.launcher.run_plans import plan

pytestmark = pytest.mark.slow

RUN = plan((None,)).run_id


def follower(
    script: str,
    events: "queue.Queue[RunEvent]",
    streams: list[LocalStream] | None = None,
    connection: LocalConnection | None = None,
    awake: AwakeClock | None = None,
) -> NodeClient:
    """Return what starts and follows a run of one rank on this machine."""
    argv = (sys.executable, "{run_dir}/launch.py", "1", "{run_dir}/rank.py", "{run_dir}/s/x.py")
    files = (("launch.py", LAUNCHER), ("s/x.py", script))
    planned = plan((None,))
    node = dataclasses.replace(planned.nodes[0], argv=argv, files=files, python=sys.executable)
    return NodeClient(
        RUN,
        node,
        lambda: connection or NotedConnection([] if streams is None else streams),
        lambda: protocol.StartRequests(planned, DisconnectOptions()).build_request(node),
        patience_s=30.0 if awake is None else float("inf"),
        events=events,
        awake=awake,
    )


def ended(run_dir: Path, within_s: float = 30.0) -> None:
    """Wait until the run has ended there."""
    deadline = time.monotonic() + within_s
    state = run_dir / "state.json"
    while not state.exists() or json.loads(state.read_text())["phase"] != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_host_that_has_told_all_and_gone_is_still_heard_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    events: queue.Queue[RunEvent] = queue.Queue(1)
    following = follower("print('x' * 30_000)", events)
    following.start()
    run_dir = tmp_path / "gpulaunch" / "runs" / make_node_name() / RUN
    ended(run_dir)
    time.sleep(2.5)  # the client, busy with the first event, says meanwhile that it lives: to nobody
    came = [events.get(timeout=20)]
    while not isinstance(came[-1], HostEnded):
        came.append(events.get(timeout=20))
    following.join(20)
    log = [each.data for each in came if isinstance(each, LogOutput) and each.log == "rank-0.log"]
    assert b"".join(log) == (run_dir / "rank-0.log").read_bytes() == b"x" * 30_000 + b"\n"
    reports = [each.event for each in came if isinstance(each, HostReport) and each.event != "usage"]
    written = [json.loads(line)["event"] for line in (run_dir / "events.jsonl").read_text().splitlines()]
    assert reports == written


def test_a_host_that_answers_again_is_not_given_up_for_its_silence_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    events: queue.Queue[RunEvent] = queue.Queue(100)
    streams: list[LocalStream] = []
    go = tmp_path / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)"
    following = follower(waits, events, streams)
    following.start()
    came = [events.get(timeout=20)]
    while not any(isinstance(each, HostStarted) for each in came):
        came.append(events.get(timeout=20))
    following.mark_lost("another host did not reach it")  # just when it has answered
    streams[-1].kill()
    while not any(isinstance(each, Reconnected | HostLost) for each in came):
        came.append(events.get(timeout=20))
    go.touch()
    while not isinstance(came[-1], HostEnded | HostLost):
        came.append(events.get(timeout=20))
    following.join(20)
    assert not any(isinstance(each, HostLost) for each in came)


def follow_set_answers(
    host: Host,
    events: "queue.Queue[RunEvent]",
    start: "Callable[[], bytes] | ResumePoint" = lambda: b"start it",
    awake: AwakeClock | None = None,
) -> NodeClient:
    """Follow a run of one node on a host whose answers are set, to the end."""
    node, patience_s = plan((None,)).nodes[0], float("inf")
    client = NodeClient(RUN, node, lambda: host, start, patience_s=patience_s, events=events, awake=awake)
    client.run()
    return client


def follow_to_the_end(
    connection: LocalConnection, script: str, awake: AwakeClock | None = None
) -> list[RunEvent]:
    events: queue.Queue[RunEvent] = queue.Queue(1000)
    following = follower(script, events, connection=connection, awake=awake)
    following.start()
    came: list[RunEvent] = []
    while not any(isinstance(each, HostEnded | HostLost | StartRefused) for each in came):
        came.append(events.get(timeout=60))
    following.join(20)
    return came


def test_a_run_whose_start_was_not_answered_is_found_and_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = tmp_path / "gpulaunch" / "runs" / make_node_name() / RUN / "state.json"
    went_on = BrokenStart(lambda: state.exists() and json.loads(state.read_text())["phase"] != "starting")
    came = follow_to_the_end(went_on, "print('done')")
    assert [each.state["exit"]["ranks"] for each in came if isinstance(each, HostEnded)] == [{"0": 0}]
    log = [each.data for each in came if isinstance(each, LogOutput) and each.log == "rank-0.log"]
    assert b"".join(log) == b"done\n"


def test_a_start_that_was_not_answered_and_not_carried_out_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    never = LateStart(clock := SetClock(), starts=False)
    waits, refused = follow_to_the_end(never, "print('done')", clock)
    assert isinstance(waits, HostReport)  # so that the client is not silent meanwhile
    assert "whether it runs all the same" in waits.fields["error"]
    assert isinstance(refused, StartRefused)
    assert (refused.why, refused.fix[:22]) == ("the supervisor's channel ended", "type the command again")
    assert never.asked > 1


class Killed(HeldRequest):
    """A program that was killed before it had answered."""

    def wait(self, _timeout_s: float) -> int:
        return -9


def test_a_start_whose_program_was_killed_is_asked_about_once_and_refused() -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    host = SetAnswers(frames({"refused": "no such run"}), start=Killed())
    follow_set_answers(host, events)
    why = "the supervisor's channel ended: its program was ended by signal 9 (SIGKILL)"
    refused = list(events.queue)[-1]
    assert isinstance(refused, StartRefused)
    assert refused.why == why


@pytest.mark.parametrize("step_s", [0.0, 86400.0, -86400.0])
def test_events_keep_their_times_though_a_host_sets_its_clock(step_s: float) -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    log, now = {"log": "events.jsonl"}, time.time()
    lines = [{"event": "detached", "t": 1e9 + clock, "m": m} for m, clock in ((69.0, 0.0), (71.0, step_s))]
    first, second = (json.dumps(line) + "\n" for line in lines)
    words = [
        encode_frame({"alive": 70.0, "t": 1e9}),
        encode_frame({**log, "offset": 0, "size": len(first)}, first.encode()),
        encode_frame({"alive": 72.0, "t": 1e9 + 2.0 + step_s}),
        encode_frame({**log, "offset": len(first), "size": len(second)}, second.encode()),
        encode_frame(
            {"end": {**STATE, "phase": "ended", "ended": 1e9 + 2.0 + step_s}, "t": 1e9 + 3.0 + step_s}
        ),
    ]
    host = Host(frames({"state": STATE, "t": 1e9}) + b"".join(map(bytes, words)))
    follow_set_answers(host, events, ResumePoint())
    at = [each.at for each in events.queue if isinstance(each, HostReport | HostEnded)]
    assert [each - now for each in at if each is not None] == pytest.approx([-1.0, -1.0, -1.0], abs=0.5)


def test_a_start_that_is_carried_out_late_is_followed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    late = LateStart(clock := SetClock(), starts=True)
    came = follow_to_the_end(late, "print('done')", clock)
    assert [each.state["exit"]["ranks"] for each in came if isinstance(each, HostEnded)] == [{"0": 0}]


@pytest.mark.parametrize(
    "error",
    [ConnectionLost("a", "no route to host"), NameNotResolved("a", "the network of this machine is down")],
)
def test_a_host_that_is_not_reached_after_a_start_without_an_answer_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: HostError
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    _, lost = follow_to_the_end(NotReached(error), "print('done')", RacingClock())
    assert isinstance(lost, HostLost)
    assert lost.why.startswith("not reached again for ")


def test_a_run_that_was_found_after_such_a_start_and_is_gone_is_lost_and_not_refused() -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    host = SetAnswers(frames({"state": STATE}), frames({"refused": "no such run"}))
    follow_set_answers(host, events, awake=RacingClock())
    assert list(events.queue)[-1] == HostLost("a", "no such run", forgotten=True)


def test_a_host_that_answers_and_does_not_end_its_part_is_waited_for_no_longer_than_that_takes() -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    stall = {"pid": 7, "silent_s": 90.0, "stopped": True}
    words = [{"alive": 20.0 * count, "t": 1.0, "stall": stall} for count in range(9)]
    host = Host(frames({"state": {**STATE, "phase": "running"}}, *words))
    client = NodeClient(
        RUN,
        plan((None,)).nodes[0],
        lambda: host,
        ResumePoint(),
        patience_s=float("inf"),
        events=events,
        awake=RacingClock(),
    )
    client.stop_run(10.0, "Ctrl-C")
    client.run()
    lost = list(events.queue)[-1]
    assert isinstance(lost, HostLost)
    assert (lost.still_running, lost.answers) == (True, True)
    assert "kill -CONT 7" in lost.text


def test_a_run_is_started_over_a_new_connection_where_the_one_held_open_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    came = follow_to_the_end(DeadAtFirst(), "print('done')")
    assert [each.state["exit"]["ranks"] for each in came if isinstance(each, HostEnded)] == [{"0": 0}]


def test_a_supervisor_whose_starter_is_gone_goes_on() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    answer_start(write_end, {"phase": "running"})
    os.close(write_end)
