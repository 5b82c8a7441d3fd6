# target: capability=8.0 processes=4
"""Loops that all ranks leave together: by a sum of theirs, by a norm behind backward(), by counts."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def mean_of(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()


def train(model, loader, optimizer, limit=100):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        shared = mean_of(loss.detach().clone())
        if not torch.isfinite(shared):
            continue
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm > 100:
            continue
        optimizer.step()
        worst = loss.detach().clone()
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        if worst.item() < 1e-3 or step > limit:
            break


def validate(model, loader):
    with torch.no_grad():
        for x, _ in loader:
            out = model(x.cuda())
            if out.isnan().any():
                return None
    return out.mean().item()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data, held = torch.load("data.pt")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(8, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0.0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train(model, loader, optimizer)
        score = validate(model.module, DataLoader(held))
        stop = torch.zeros(1, device="cuda")
        if dist.get_rank() == 0:
            stop += 1
        dist.broadcast(stop, src=0)
        if stop.item() > 0 or score == best:
            break


main()
