"""preflight on simulated hosts: the field's own story as it happens, and hosts that reach each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FreshLab
from tests.lab.actors import hold_port
from tests.lab.hosts import Lab
from tests.lab.test_clean_zombies import gpulaunch, holder, orphan

pytestmark = pytest.mark.lab


def preflight(lab: Lab, *words: str, home: Path) -> dict[str, Any]:
    answer = gpulaunch(lab, "preflight", *words, "--json", home=home)
    document: dict[str, Any] = json.loads(answer.stdout)
    assert answer.returncode == document["exit_code"], answer.stderr
    return document


def test_field_note_4_from_beginning_to_end(fresh_lab: FreshLab, tmp_path: Path) -> None:
    lab = fresh_lab("titan", profiles=["2xl40s-exclusive"])
    host = lab.hosts[0]
    dead = orphan(host, "--gpu", "0", "--mib", "39000")
    half_dead = holder(host, "--gpu", "1", "--mib", "21000", "--zombie-leader")
    port = hold_port(host, 29500)
    said = preflight(lab, "titan", "--gpus", "all", "--precision", "bf16", home=tmp_path)
    told = {(finding["code"], finding["subject"]): finding for finding in said["findings"]}
    assert f"pid {dead} " in told["PROC001", "gpu0"]["message"]
    assert "an orphan" in told["PROC001", "gpu0"]["message"]
    assert "half dead" in told["PROC001", "gpu1"]["message"]
    assert "gpulaunch clean-zombies titan" in told["PROC001", "gpu1"]["fix"]
    for gpu in ("gpu0", "gpu1"):
        assert "Exclusive_Process" in told["MODE002", gpu]["message"]
    assert "will be used instead" in told["PORT001", "port 29500"]["message"]
    assert said["would_use"]["main_port"] != 29500
    assert said["would_use"]["precision"] == "bf16"
    assert said["exit_code"] == 1

    gpulaunch(lab, "clean-zombies", "titan", "--yes", "--grace", "1", home=tmp_path)
    half_dead.close()
    port.end()
    after = preflight(
        lab, "titan", "--gpus", "all", "--precision", "bf16", "--ignore", "ENV003", home=tmp_path
    )
    assert after["exit_code"] == 0, after["findings"]
    assert after["would_use"]["main_port"] == 29500
    assert after["would_use"]["world_size"] == 2
    free = next(finding for finding in after["findings"] if finding["code"] == "MODE002")
    assert "every rank gets its own GPU" in free["message"]


def test_nodes_reach_the_main_host_and_a_dead_one_is_only_its_own_finding(lab: Lab, tmp_path: Path) -> None:
    names = [host.name for host in lab.hosts]
    well = preflight(lab, *names, "--gpus", "none", home=tmp_path)
    assert {item["from_host"] for item in well["reach"]} == set(names[1:])
    assert all(item["ok"] for item in well["reach"])
    assert well["would_use"]["world_size"] == len(names)

    sick = preflight(lab, *names, f"root@{lab.dead_address()}", "--gpus", "none", home=tmp_path)
    codes = [(finding["code"], finding["hosts"]) for finding in sick["findings"] if finding["stops_launch"]]
    assert len(codes) == 1
    assert codes[0][0].startswith("HOST")
    assert codes[0][1] == [f"root@{lab.dead_address()}"]
    assert all(sick["hosts"][name]["reached"] for name in names)
