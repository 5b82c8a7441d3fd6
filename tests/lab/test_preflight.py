"""preflight on simulated hosts that reach each other, beside one that is not there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.hosts import Lab
from tests.lab.leftovers import gpulaunch

pytestmark = pytest.mark.lab


def preflight(lab: Lab, *words: str, home: Path) -> dict[str, Any]:
    answer = gpulaunch(lab, "preflight", *words, "--json", home=home)
    document: dict[str, Any] = json.loads(answer.stdout)
    assert answer.returncode == document["exit_code"], answer.stderr
    return document


def test_nodes_reach_the_main_host_and_a_dead_one_is_only_its_own_finding(lab: Lab, tmp_path: Path) -> None:
    names = [host.name for host in lab.hosts]
    well = preflight(lab, *names, "--gpus", "none", home=tmp_path)
    ways = {(item["from_host"], item["to_host"]) for item in well["reach"]}
    assert ways == {(one, other) for one in names for other in names if one != other}
    assert all(item["ok"] for item in well["reach"])
    assert well["would_use"]["world_size"] == len(names)

    sick = preflight(lab, *names, f"root@{lab.dead_address()}", "--gpus", "none", home=tmp_path)
    codes = [(finding["code"], finding["hosts"]) for finding in sick["findings"] if finding["blocks_launch"]]
    assert len(codes) == 1
    assert codes[0][0].startswith("HOST")
    assert codes[0][1] == [f"root@{lab.dead_address()}"]
    assert all(sick["hosts"][name]["reached"] for name in names)
