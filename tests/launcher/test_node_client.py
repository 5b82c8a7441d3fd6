"""A node followed for real through the local transport, by a client that takes its time."""

import dataclasses
import json
import queue
import sys
import time
from pathlib import Path

import pytest

from launcher.config.disconnect_options import DisconnectOptions
from launcher.follow import protocol
from launcher.follow.events import HostEnded, HostReport, LogOutput, RunEvent
from launcher.follow.node_client import NodeClient
from launcher.onhost.supervisor.node import node_name
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from tests.launcher.onhost_driver import LAUNCHER
from tests.launcher.run_plans import plan

pytestmark = pytest.mark.slow

RUN = plan((None,)).run_id


def follower(script: str, events: "queue.Queue[RunEvent]") -> NodeClient:
    """Return what starts and follows a run of one rank on this machine."""
    argv = (sys.executable, "{run_dir}/launch.py", "1", "{run_dir}/rank.py", "{run_dir}/s/x.py")
    files = (("launch.py", LAUNCHER), ("s/x.py", script))
    planned = plan((None,))
    node = dataclasses.replace(planned.nodes[0], argv=argv, files=files, python=sys.executable)
    return NodeClient(
        RUN,
        node,
        lambda: LocalConnection(Endpoint("a", "local", "")),
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
