"""The script of the deep checks on real ranks over gloo: what is slow, wrong or silent is named."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from launcher.follow.run_state import DeepReports
from launcher.rundir.event_schema import validate_event
from preflight.checks.finding import Finding
from preflight.checks.runner import check_deep
from preflight.deep.measurements import DeepRun, RankDeep, add_reports
from tests.field_notes.ranks import LIGHT, shimmed
from tests.launcher.sources import ROOT

pytestmark = [pytest.mark.train, pytest.mark.slow]


def measured(*faults: dict[str, Any]) -> list[list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.launcher.deep_ranks", *map(json.dumps, faults)],
        cwd=ROOT,
        env={**os.environ, **shimmed(LIGHT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def judged(events: list[dict[str, Any]], count: int) -> tuple[Finding, ...]:
    """Return the findings of reports, which come in as those of a launch do."""
    reports = DeepReports()
    hosts = {rank: f"n{rank}" for rank in range(count)}
    for event in events:
        assert validate_event(event) == ""
        if event["event"] == "deep":
            reports.add(hosts[event["rank"]], event["rank"], event)
    reported = reports.group_by_rank(hosts)
    hung = [event["why"] for event in events if event["event"] == "hung"]
    ranks = tuple(add_reports(RankDeep(rank, hosts[rank]), reported.get(rank, ())) for rank in range(count))
    return check_deep(DeepRun(ranks, ended=hung[0] if hung else "", hung=bool(hung)))


def test_slow_wrong_and_silent_ranks_and_a_slow_link_are_named() -> None:
    """Four nodes: 0 is slow, 3 computes wrong, 1 and 2 reach each other slowly; then 2 of three stops."""
    faulty, silent = measured(
        {"ranks": 4, "slow": 0, "wrong": 3, "link": [1, 2]},
        {"ranks": 3, "seconds": 0.2, "silent": 2, "step": "digest"},
    )
    reported = {(finding.code, finding.hosts, finding.subject) for finding in judged(faulty, 4)}
    assert {
        ("DEEP002", ("n0",), "rank 0"),
        ("DEEP003", ("n3",), "rank 3"),
        ("DEEP009", ("n1", "n2"), "link"),
    } <= reported
    assert {
        finding for finding in reported if finding[0] in ("DEEP001", "DEEP003", "DEEP008", "DEEP009")
    } == {("DEEP003", ("n3",), "rank 3"), ("DEEP009", ("n1", "n2"), "link")}
    stopped = [finding for finding in judged(silent, 3) if finding.code == "DEEP003"]
    assert [(finding.hosts, finding.subject) for finding in stopped] == [(("n2",), "rank 2")]
    assert "hung in the step digest" in stopped[0].message
