# target: capability=8.0 processes=4
"""GPU 0 is that of the branch beside the one that starts ranks."""

import argparse

import torch
import torch.multiprocessing as mp
from torch import nn


def run_on_gpu(rank: int | None) -> None:
    if args.parallel:
        torch.distributed.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
        torch.cuda.set_device(rank)
    model = nn.Linear(4, 4)
    if rank is not None:
        model = model.to(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.zeros(8, 4):
        model(batch).sum().backward()
        optimizer.step()  # expect: R406 warning


parser = argparse.ArgumentParser()
parser.add_argument("--parallel", action="store_true")
parser.add_argument("--gpu", action="store_true")
args = parser.parse_args()
if args.parallel:
    mp.spawn(run_on_gpu, nprocs=torch.cuda.device_count())  # expect: D211 warning
else:
    if args.gpu:
        run_on_gpu(0)
    else:
        run_on_gpu(None)
