"""How sure lint is of what ranks do, by what starts them and what they train in."""

import pytest

from preflight.script.lint import lint, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget

_BY_SLURM = """
import os, torch
import torch.distributed as dist
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", rank=rank, world_size=size)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[0])
"""


@pytest.mark.parametrize(
    ("text", "levels"),
    [(_BY_SLURM, {Level.WARNING}), (_BY_SLURM.replace("SLURM_PROCID", "LOCAL_RANK"), {Level.ERROR})],
)
def test_gpu_0_of_each_task_may_be_its_own(text: str, levels: set[Level]) -> None:
    ranks = RankTarget(capability=(8, 0), processes=2)
    found = [
        item for item in lint_for(text, "train.py", [ranks], certain=True).findings if item.code == "D201"
    ]
    assert {item.level for item in found} == levels
    assert all(("--gpus-per-task=1" in item.message) is (levels == {Level.WARNING}) for item in found)


_CLIPPED = """
import torch
from accelerate import Accelerator
config = load_config()
acc = Accelerator(MODE)
net = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net, opt = acc.prepare(net, opt)
def shrink(net, limit=1.0):
    norm = sum(each.grad.norm() for each in net.parameters())
    for each in net.parameters():
        each.grad.data.mul_(min(1.0, limit / norm))
for x in load_data():
    acc.backward(net(x).sum())
    CLIP
    opt.step()
    opt.zero_grad()
"""
_TORCHS = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)"
_OWN = "shrink(net)"


@pytest.mark.parametrize(
    ("mode", "level", "said"),
    [
        ("mixed_precision='fp16'", Level.WARNING, ""),
        ("", Level.WARNING, ", where it trains in fp16"),
        ("mixed_precision=config.mode", Level.INFO, ", where it trains in fp16"),
    ],
)
@pytest.mark.parametrize(
    ("clip", "does", "fix"),
    [
        (_TORCHS, "torch's clip_grad_norm_ clips", "acc.clip_grad_norm_(net.parameters(), 1.0)"),
        (_OWN, "this changes", "acc.unscale_gradients() before it"),
    ],
)
def test_what_clips_is_named_and_how_sure_its_scaler_is(
    mode: str, level: Level, said: str, clip: str, does: str, fix: str
) -> None:
    text = _CLIPPED.replace("MODE", mode).replace("CLIP", clip)
    found = [item for item in lint(text, "train.py").findings if item.code == "P116"]
    assert [(item.level, item.message, item.fix) for item in found] == [
        (level, f"{does} gradients that accelerate's fp16 has scaled{said}", fix)
    ]
