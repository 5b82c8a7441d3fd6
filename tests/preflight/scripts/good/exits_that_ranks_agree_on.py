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


def anywhere(flag):
    return mean_of(flag.float()).item() > 0


def by_form(model, loader, optimizer):
    for x, y in loader:
        out = model(x.cuda())
        if out is None or out.ndim != 2 or len(out) < 8 or not isinstance(out, torch.Tensor):
            continue
        loss = nn.functional.cross_entropy(out, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def by_keyword(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        bad = loss.isnan().float()
        dist.all_reduce(tensor=bad, op=dist.ReduceOp.MAX)
        if bad:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def by_vote(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        if anywhere(~torch.isfinite(loss)):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def with_no_gradients(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        if loss > 100:
            (loss * 0).backward()
            optimizer.step()
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def by_mean(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values = [torch.zeros_like(loss) for _ in range(dist.get_world_size())]
        dist.all_gather(values, loss.detach())
        mean = sum(values) / len(values)
        if mean < 1e-3:
            break


def train_until_rank_0_stops(model, loader, optimizer):
    stop = torch.zeros(1, device="cuda")
    while True:
        train(model, loader, optimizer)
        if dist.get_rank() == 0:
            stop[0] = 1
        dist.broadcast(tensor=stop, src=0)
        if stop.item():
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
        for turn in (by_form, by_keyword, by_vote, with_no_gradients, by_mean):
            turn(model, loader, optimizer)
        score = validate(model.module, DataLoader(held))
        stop = torch.zeros(1, device="cuda")
        if dist.get_rank() == 0:
            stop += 1
        dist.broadcast(stop, src=0)
        if stop.item() > 0 or score == best:
            break
    train_until_rank_0_stops(model, loader, optimizer)


main()
