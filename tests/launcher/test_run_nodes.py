"""A launch on 40 nodes of 4 ranks, from plan to stop, with replayed supervisors that speak the protocol."""

import json
import threading
from pathlib import Path

import pytest

from bench.replayed_supervisors import Story
from bench.run_nodes import replay
from launcher.rundir.layout import read_run

NODES, GPUS, STEPS = 40, 4, 3
RANKS = NODES * GPUS


def test_forty_nodes_are_planned_verified_followed_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = threading.active_count()
    done = replay(Story(NODES, STEPS, 0.05, failing_rank=RANKS - 1), GPUS, tmp_path)
    outcome = done.outcome

    assert (outcome.verdict, outcome.exit_code) == ("failed", 1)
    assert outcome.why == "rank 159 on node-0039 failed with exit code 1: ValueError: loss is NaN"
    assert outcome.plan.world_size == RANKS
    assert outcome.verification.devices_verified
    assert not outcome.verification.mismatches
    codes = [rank.code for rank in outcome.ranks]
    assert (codes.count(-15), codes.count(1), len(codes)) == (RANKS - 1, 1, RANKS)
    assert outcome.cleanup.is_clean

    logs = sorted(outcome.directory.glob("node-*/rank-*.log"))
    assert len(logs) == RANKS
    assert {log.read_bytes().count(b"\n") for log in logs} == {STEPS}
    assert done.threads <= before + NODES + 4  # one for each node, the watcher's and those of the peer check
    # What was noted of 160 ends names each log once in a while, not all of them each time.
    noted = (outcome.directory / "events.jsonl").read_text()
    assert noted.count("rank-0.log") < 2 * STEPS + 2
    assert len(noted) < 200 * (RANKS + 100)
    last: dict[str, int] = {}
    for event in read_run(outcome.directory).events:
        last |= event.sizes or {}
    assert last["node-0039/rank-159.log"] == logs[-1].stat().st_size
    assert json.loads((outcome.directory / "outcome.json").read_text())["verdict"] == "failed"
