# target: capability=8.0 processes=4 args=
"""Ends of loops, and collectives, that each rank decides by its own part of the data, clock or memory."""

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
sampler = DistributedSampler(data)
train_loader = DataLoader(data, 8, sampler=sampler)
val_loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
model = DDP(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(epoch):
    sampler.set_epoch(epoch)
    for x, y in train_loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(loader):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(model.module(x.cuda()), y.cuda()).item()
    return total / len(loader)


def by_patience():
    best, bad = 9e9, 0
    for epoch in range(9):
        train(epoch)
        loss = evaluate(val_loader)
        if loss < best:
            best, bad = loss, 0
            dist.barrier()  # expect: R404 warning
        else:
            bad += 1
        if bad > 3:
            break  # expect: R404 warning


def by_clock():
    start = time.time()
    for x, y in train_loader:
        if time.time() - start > 3600:
            break  # expect: R404 warning
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def by_memory():
    for x, y in train_loader:
        try:
            F.cross_entropy(model(x.cuda()), y.cuda()).backward()
        except RuntimeError as error:  # expect: R404 warning
            if "out of memory" in str(error):
                optimizer.zero_grad()
                continue
            raise
        optimizer.step()
        optimizer.zero_grad()


def by_targets():
    for x, y in train_loader:
        if y.numel() == 0:
            continue  # expect: R404 warning
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


by_patience()
by_clock()
by_memory()
by_targets()
