# target: capability=8.0 processes=2
import os
from types import SimpleNamespace

import torch
import torch.distributed as dist


def begin(run):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    return "build"


def build(run):
    run.model = torch.nn.Linear(4, 4).cuda()
    return "place"


def place(run):
    run.batch = torch.ones(4, 4, device="cuda:0")  # expect: D201 error
    return "train"


def train(run):
    run.model(run.batch)
    run.left -= 1
    return "train" if run.left else None


STATES = {step.__name__: step for step in (begin, build, place, train)}
run, state = SimpleNamespace(left=3), "begin"
while state:
    state = STATES[state](run)
