"""How a run ended that no client followed: by its nodes, and by where and when its supervisor began."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launcher.cli import cli
from launcher.onhost.supervisor.node import read_node_location
from launcher.onhost.supervisor.processes import read_start_ticks
from launcher.onhost.supervisor.run_dir import find_loss


@pytest.mark.parametrize(
    ("of_state", "loss"),
    [
        ({"supervisor": [7, read_start_ticks(1)]}, "killed"),
        # A restarted container gets the number of its former namespace again.
        ({"supervisor": [7, read_start_ticks(1) - 1]}, "container"),
        ({"supervisor": [7, read_start_ticks(1)], "pid_ns": "1"}, "container"),
        ({"boot_id": "another"}, "host"),
        ({"boot_id": ""}, None),
    ],
)
def test_a_loss_is_told_by_where_and_when_the_supervisor_began(
    of_state: dict[str, Any], loss: str | None
) -> None:
    assert find_loss({**read_node_location(), **of_state}) == loss


def test_a_fetched_run_that_was_stopped_has_not_failed(tmp_path: Path) -> None:
    run = tmp_path / "paper-20260301-100000-ab12cd"
    (run / "titan").mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    (run / "titan" / "rank-3.log").write_text("ChildFailedError: \ntrain.py FAILED\n")
    end = {"launcher_code": -15, "ranks": {"3": -15}, "why": "stopped by ana@x", "cause": "request"}
    (run / "titan" / "state.json").write_text(json.dumps({"phase": "ended", "exit": end}))
    said = CliRunner().invoke(cli, ["diagnose", run.name, "--logs", str(tmp_path)]).output
    assert said == "interrupted: stopped by ana@x\nits logs show no failure\n"
