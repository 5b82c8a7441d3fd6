# target: capability=8.0 processes=4
"""Loops that a rank leaves, or whose turn it leaves out, by what its own batch gave."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def skip(model, loader, optimizer):
    for x, y in loader:
        out = model(x.cuda())
        loss = nn.functional.cross_entropy(out, y.cuda())
        if not torch.isfinite(loss):
            continue  # expect: R404 warning
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stop_early(model, loader, optimizer, grad_accum=2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / grad_accum
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value < 1e-3:
            break  # expect: R404 warning


def stop_of_rank_0(model, loader, optimizer, rank):
    while True:
        stop = torch.zeros(1, device="cuda")
        skip(model, loader, optimizer)
        if rank == 0:
            stop[0] = 1
        if int(stop):
            break  # expect: R404 warning


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = torch.load("data.pt")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(8, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        stop_early(model, loader, optimizer)
    stop_of_rank_0(model, loader, optimizer, dist.get_rank())


main()
