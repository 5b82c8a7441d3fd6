"""`gpulaunch rehearse` on simulated hosts over SSH: proven, compared, and nothing left on any of them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.command_server import run_module
from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab.hosts import Lab
from tests.lab.run_cli import CHECKOUT

pytestmark = [pytest.mark.lab, pytest.mark.train]

TRAIN = """
import sys, torch
from accelerate import Accelerator
a = Accelerator()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
if "unlike" in sys.argv and a.process_index == 1: model.to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if "unlike" not in sys.argv: model, optimizer = a.prepare(model, optimizer)
x = torch.randn(8, 4, dtype=next(model.parameters()).dtype)
for step in range(10000):
    loss = (model(x) - 1).pow(2).mean()
    a.backward(loss); optimizer.step(); optimizer.zero_grad()
    open(f"output.{a.process_index}", "w").write("x")
"""


def gpulaunch(lab: Lab, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "known_hosts").write_text(lab.known_hosts.read_text())
    (home / "job.py").write_text(TRAIN)
    keys = {"script": "job.py", "send_script": True, "gpus": "none", "precision": "no", "output": "out"}
    (home / "job.yaml").write_text(json.dumps({**keys, "env": shimmed(LIGHT)}))
    hosts = ",".join(host.name for host in lab.hosts[:2])
    command, *rest = words
    words = (command, "-c", "./job.yaml", "--hosts", hosts, "-i", str(lab.inventory_path), *rest)
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(CHECKOUT), "XDG_STATE_HOME": ""}
    return run_module("launcher.cli", words, home, env, 150.0)


def test_two_hosts_are_rehearsed_as_one_world_and_left_clean(lab: Lab, tmp_path: Path) -> None:
    done = gpulaunch(lab, tmp_path, "rehearse", "--steps", "4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["proven"]
    assert [(rank["rank"], rank["host"]) for rank in document["ranks"]] == [
        (0, lab.hosts[0].name),
        (1, lab.hosts[1].name),
    ]
    assert [each["name"] for each in document["overall"]] == ["end", "world", "output", "output"]
    for host in lab.hosts[:2]:
        left = host.run(["sh", "-c", "ls -A | grep -e rehearsal -e '^output' || true"])
        assert left.stdout == ""


def test_ranks_of_unlike_dtypes_are_stopped_though_no_rank_fails(lab: Lab, tmp_path: Path) -> None:
    done = gpulaunch(lab, tmp_path, "run", "--ignore", "SCR001", "--", "unlike")
    assert done.returncode == 86, done.stdout + done.stderr
    assert "[G7]" in done.stdout
    assert "float32" in done.stdout
    assert "bfloat16" in done.stdout
