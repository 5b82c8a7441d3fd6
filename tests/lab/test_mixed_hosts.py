"""A TITAN RTX and two L40S in one launch, over SSH: one precision, and the host that is the reason."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.client import Client, document
from tests.lab.hosts import Lab
from tests.lab.software import cuda_environment

pytestmark = pytest.mark.lab

BARE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.backward(model(torch.ones(2, 4, device=accelerator.device)).sum())
optimizer.step()
"""
TITAN = """
about: One TITAN RTX under the driver that the L40S have.
system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
gpus:
- {board: titan-rtx, pci_bus_id: "00000000:65:00.0"}
"""
LITERAL = BARE.replace("Accelerator()", 'Accelerator(mixed_precision="bf16")')


class Unlike:
    """Two hosts of unlike capability, and their user."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.client = Client(lab, home)
        python = {host.name: cuda_environment(host) for host in lab.hosts}
        self.client.write({name: {"python": path, "workdir": "/root"} for name, path in python.items()})

    def write(self, script: str, **config: object) -> None:
        (self.client.home / "train.py").write_text(script)
        document = {"script": "train.py", "send_script": True, "gpus": "all", **config}
        (self.client.home / "job.yaml").write_text(json.dumps(document))

    def preflight(self) -> dict[str, Any]:
        return document(self.client.run("preflight", "titan", "l40s", "--config", "./job.yaml", "--json"))

    def dry_run(self, hosts: str = "titan,l40s") -> tuple[int, dict[str, Any], str]:
        done = self.client.run("run", "-c", "./job.yaml", "--hosts", hosts, "--dry-run", "--json")
        return done.returncode, json.loads(done.stdout), done.stderr.decode()


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unlike]:
    root = tmp_path_factory.mktemp("unlike")
    titan = root / "titan.yaml"
    titan.write_text(TITAN)
    with Lab.up(["titan", "l40s"], root / "lab", profiles=[str(titan), "2xl40s"]) as lab:
        yield Unlike(lab, root / "home")


def test_preflight_and_plan_give_all_ranks_fp16_and_name_the_host_with_the_titan(unlike: Unlike) -> None:
    unlike.write(BARE)
    document = unlike.preflight()
    assert document["exit_code"] == 0, [each for each in document["findings"] if each["blocks_launch"]]
    assert (document["would_use"]["precision"], document["would_use"]["world_size"]) == ("fp16", 3)
    assert document["would_use"]["why_precision"] == "titan has TITAN RTX, compute capability 7.5"

    code, plan, stderr = unlike.dry_run()
    assert code == 0, stderr
    assert plan["mixed_precision"] == "fp16"
    assert plan["reasons"][0] == {
        "text": "titan has TITAN RTX, compute capability 7.5",
        "source": "bf16 is only emulated",
    }
    assert any("l40s has L40S, compute capability 8.9" in why["text"] for why in plan["reasons"][1:])
    for node in plan["nodes"]:
        assert 'mixed_precision: "fp16"' in dict(node["files"])["accelerate.yaml"]


def test_the_l40s_alone_get_bf16(unlike: Unlike) -> None:
    unlike.write(BARE)
    code, plan, stderr = unlike.dry_run("l40s")
    assert (code, plan["mixed_precision"]) == (0, "bf16"), stderr


def test_bf16_in_the_config_is_corrected_and_in_the_script_refused_by_host_and_line(unlike: Unlike) -> None:
    unlike.write(BARE, precision="bf16")
    code, plan, stderr = unlike.dry_run()
    assert code == 0, stderr
    assert [(each["old"], each["new"], each["why"]) for each in plan["changes"]] == [
        ("bf16", "fp16", "titan has TITAN RTX, compute capability 7.5")
    ]

    unlike.write(LITERAL)
    code, document, stderr = unlike.dry_run()
    assert code == 1
    assert "train.py:4: Accelerator asks for bf16" in stderr
    assert "titan has TITAN RTX, compute capability 7.5" in stderr
    assert "l40s has" not in stderr
    assert "edit line 4" in stderr
    assert document["schema"] == "gpulaunch.preflight/1"
