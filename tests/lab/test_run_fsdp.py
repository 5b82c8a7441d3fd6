"""Pasted commands whose training is sharded, over real SSH on simulated hosts, with gloo."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field_notes.ranks import shimmed
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = [pytest.mark.lab, pytest.mark.train]

# FSDP1 and FSDP2 side by side. Rank 0 alone reads and writes the checkpoint: the hosts share no file system.
# No cpu_offload in the options: FSDP1 would free parameters that are on the CPU already.
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

last, path = int(sys.argv[1]), "checkpoint.pt"
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))

first = FullyShardedDataParallel(layers(), device_id=torch.device("cpu"), use_orig_params=True)
second = fully_shard(layers(), mesh=init_device_mesh("cpu", (world,)))
pairs = [(m, torch.optim.Adam(m.parameters(), lr=float(os.environ["LR"]))) for m in (first, second)]
options = StateDictOptions(full_state_dict=True)
saved = [torch.load(path) if rank == 0 and os.path.exists(path) else None]
dist.broadcast_object_list(saved)
done = 0
if saved[0]:
    done, states = saved[0]
    for (model, optimizer), (weights, moments) in zip(pairs, states):
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments, options=options)
    print("resumed after step", done, "in a world of", world, flush=True)
for step in range(done + 1, last + 1):
    losses = []
    for model, optimizer in pairs:
        loss = model(torch.ones(4, 8)).pow(2).mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        losses.append(loss.item())
    states = [get_state_dict(model, optimizer, options=options) for model, optimizer in pairs]
    if rank == 0:
        torch.save((step, states), path + ".part"); os.replace(path + ".part", path)
    assert abs(losses[0] - losses[1]) < 1e-4, losses
    shards = [sum(p.numel() for p in first.parameters())]
    shards.append(sum(p.to_local().numel() for p in second.parameters()))
    assert max(shards) < 108 or world == 1, shards
    print("step", step, "loss %.5f" % losses[0], flush=True)
    if step < last: time.sleep(0.3)
dist.destroy_process_group()
"""


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    yield cli
    cli.close()
    for host in lab.hosts:
        host.run(["rm", "-rf", "/root/sharded"])


def test_fsdp_1_and_2_are_stopped_and_resume_in_a_world_of_another_size(lab: Lab, cli: Cli) -> None:
    first, second = (host.name for host in lab.hosts[:2])
    package = cli.home / "project" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(TRAIN)
    keys = {"sync": {"from": "project"}, "workdir": "~/sharded", "env": shimmed("quick_end")}

    def paste(line: str) -> None:
        (cli.home / "job.yaml").write_text(json.dumps({"command": line, **keys}))

    paste("LR=0.01 torchrun --nproc_per_node 1 -m pkg.train 100000")
    running = cli.start(first)
    running.until(lambda text: "step 3 " in text)
    running.interrupt()
    code, output = running.end()
    assert code == 130, output
    assert lab.hosts[0].path("/root/sharded/checkpoint.pt").exists()
    paste(f"LR=0.01 mpirun -np 2 -H {first}:1,{second}:1 python -m pkg.train 1000000")
    running = cli.start(f"{first},{second}")
    running.until(lambda text: text.count("in a world of 2") == 2 and "r1] step " in text)
    assert "resumed after step 0 " not in running.output.decode()
    running.interrupt()
    code, output = running.end()
    assert code == 130, output
    assert "2 ranks as planned: world size 2, on the CPU" in output
    plans = [json.loads(path.read_text()) for path in cli.home.glob("gpulaunch-runs/*/plan.json")]
    assert [plan["engine"] for plan in plans] == ["torchrun", "torchrun"]  # pkg.train needs no accelerate
    assert "no process of the run is left on any host" in output
