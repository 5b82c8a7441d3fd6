"""A node followed for real through the local transport, by a client that takes its time."""

import dataclasses
import json
import queue
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from launcher.config.disconnect_options import DisconnectOptions
from launcher.follow import protocol
from launcher.follow.events import (
    HostEnded,
    HostLost,
    HostReport,
    HostStarted,
    LogOutput,
    Reconnected,
    RunEvent,
)
from launcher.follow.node_client import NodeClient
from launcher.onhost.supervisor.node import node_name
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection, LocalStream
from tests.launcher.onhost_driver import LAUNCHER
from tests.launcher.run_plans import plan

pytestmark = pytest.mark.slow

RUN = plan((None,)).run_id


class NotedConnection(LocalConnection):
    """Notes what it has started, so that a test can break the link."""

    def __init__(self, streams: list[LocalStream]) -> None:
        super().__init__(Endpoint("a", "local", ""))
        self._streams = streams

    def start(self, argv: Iterable[str]) -> LocalStream:
        stream = super().start(argv)
        self._streams.append(stream)
        return stream


def follower(
    script: str, events: "queue.Queue[RunEvent]", streams: list[LocalStream] | None = None
) -> NodeClient:
    """Return what starts and follows a run of one rank on this machine."""
    argv = (sys.executable, "{run_dir}/launch.py", "1", "{run_dir}/rank.py", "{run_dir}/s/x.py")
    files = (("launch.py", LAUNCHER), ("s/x.py", script))
    planned = plan((None,))
    node = dataclasses.replace(planned.nodes[0], argv=argv, files=files, python=sys.executable)
    return NodeClient(
        RUN,
        node,
        lambda: NotedConnection([] if streams is None else streams),
        lambda: protocol.StartRequests(planned, DisconnectOptions()).of(node),
        patience_s=30.0,
        events=events,
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
    run_dir = tmp_path / "gpulaunch" / "runs" / node_name() / RUN
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
