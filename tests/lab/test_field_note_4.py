"""Field note 4 from beginning to end: what an inherited cluster does to a launch, and the way out of it.

Two L40S in Exclusive_Process mode, a leftover of an earlier run on each of them, port 29500 taken, and a
config that asks for bf16. All through the command line, over SSH, on the simulated NVML.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.actors import hold_port
from tests.lab.client import Client, document
from tests.lab.hosts import Lab, LabHost, LabProcess
from tests.lab.leftovers import holder, orphan
from tests.lab.software import cuda_environment

pytestmark = pytest.mark.lab

TRAIN = """
import argparse
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--bf16", action="store_true")
parser.parse_args()
accelerator = Accelerator()
"""


UNPROVEN = """
def main():
    from somewhere import train
    train()
main()
"""


class Inherited:
    """The host as it was found, and the user who was handed it."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.host: LabHost = lab.hosts[0]
        self.client = Client(lab, home)
        self.client.write({self.host.name: {"python": cuda_environment(self.host), "workdir": "/root"}})
        self.half_dead: LabProcess = holder(self.host, "--gpu", "1", "--mib", "21000", "--zombie-leader")
        self.orphan = orphan(self.host, "--gpu", "0", "--mib", "39000")
        self.port = hold_port(self.host, 29500)
        (home / "train.py").write_text(TRAIN)
        config = {"script": "train.py", "send_script": True, "gpus": "all", "precision": "bf16"}
        (home / "job.yaml").write_text(json.dumps(config))

    def preflight(self) -> dict[str, Any]:
        """What preflight says for the config."""
        return document(self.client.run("preflight", self.host.name, "--config", "./job.yaml", "--json"))

    def dry_run(self) -> tuple[int, dict[str, Any], str]:
        """What `run --dry-run` says: exit code, plan, stderr."""
        words = ("run", "--config", "./job.yaml", "--hosts", self.host.name, "--dry-run", "--json")
        done = self.client.run(*words)
        return done.returncode, json.loads(done.stdout), done.stderr.decode()


@pytest.fixture
def inherited(tmp_path: Path) -> Iterator[Inherited]:
    with Lab.up("titan", tmp_path / "lab", profiles=["2xl40s-exclusive"]) as lab:
        found = Inherited(lab, tmp_path / "home")
        with found.port, found.half_dead:
            yield found


def test_field_note_4_from_what_was_found_to_one_gpu_per_rank(inherited: Inherited) -> None:
    host = inherited.host
    _shows_what_was_left(inherited)

    code, plan, stderr = inherited.dry_run()
    assert code == 1
    assert "PROC001" in stderr
    assert "MODE002" in stderr
    assert plan["main_port"] != 29500
    assert any(change["field"].startswith("--port") for change in plan["changes"])

    _ends_what_was_left(inherited)
    uuids = _shows_a_free_host(inherited)

    _plans_one_gpu_per_rank(inherited, uuids)
    shown = inherited.client.run("run", "--config", "./job.yaml", "--hosts", host.name, "--dry-run")
    assert shown.returncode == 0
    assert all(uuid in shown.stdout.decode() for uuid in uuids)
    assert not host.strays_after(), "a dry run starts nothing"


def _shows_what_was_left(inherited: Inherited) -> None:
    host = inherited.host
    answer = inherited.preflight()
    found = {(each["code"], each["subject"]): each for each in answer["findings"]}
    assert answer["exit_code"] == 1

    left = found["PROC001", "gpu0"], found["PROC001", "gpu1"]
    assert f"pid {inherited.orphan} " in left[0]["message"]
    assert f"pid {inherited.half_dead.pid} " in left[1]["message"]
    for each in left:
        assert each["blocks_launch"]
        assert f"gpulaunch clean-zombies -i hosts.yaml {host.name}" in each["fix"]
    for gpu in ("gpu0", "gpu1"):
        assert "Exclusive_Process" in found["MODE002", gpu]["message"]
        assert found["MODE002", gpu]["blocks_launch"]
    assert "will be used instead" in found["PORT001", "port 29500"]["message"]
    assert answer["would_use"]["main_port"] != 29500
    assert answer["would_use"]["precision"] == "bf16"


def _ends_what_was_left(inherited: Inherited) -> None:
    host = inherited.host
    cleaned = inherited.client.run("clean-zombies", host.name, "--yes", "--grace", "1", "--json")
    assert cleaned.returncode == 0, cleaned.stdout
    ended = {each["pid"] for each in json.loads(cleaned.stdout)["hosts"][host.name]["cleaned"]["killed"]}
    assert ended == {inherited.orphan, inherited.half_dead.pid}
    assert all(host.state(pid) == "" for pid in ended)
    inherited.port.end()


def _shows_a_free_host(inherited: Inherited) -> list[str]:
    """Return its GPUs' UUIDs."""
    after = inherited.preflight()
    assert [each["code"] for each in after["findings"] if each["blocks_launch"]] == []
    assert after["exit_code"] == 0
    assert after["would_use"] | {"why_precision": ""} == {
        "precision": "bf16",
        "why_precision": "",
        "main_port": 29500,
        "world_size": 2,
        "problem": "",
        "fix": "",
    }
    return [gpu["uuid"] for gpu in after["hosts"][inherited.host.name]["summary"]["gpus"]]


def _plans_one_gpu_per_rank(inherited: Inherited, uuids: list[str]) -> None:
    code, plan, stderr = inherited.dry_run()
    assert (code, plan["main_port"], plan["mixed_precision"], plan["world_size"]) == (0, 29500, "bf16", 2)
    (node,) = plan["nodes"]
    ranks = node["ranks"]
    assert [(slot["local_rank"], slot["gpu_uuid"]) for slot in ranks["slots"]] == list(enumerate(uuids))
    assert plan["changes"] == []
    assert not ranks["single_gpu_visible"]
    assert any("takes the GPU of its LOCAL_RANK first" in why["text"] for why in ranks["reasons"])

    (inherited.client.home / "train.py").write_text(UNPROVEN)
    code, plan, stderr = inherited.dry_run()
    assert code == 0, stderr
    careful = plan["nodes"][0]["ranks"]
    assert careful["slots"] == ranks["slots"]
    assert careful["single_gpu_visible"], "in Exclusive_Process mode no rank may touch the GPU of another"
    assert any("each rank sees its own GPU only" in why["text"] for why in careful["reasons"])
