"""A run that goes on sets its first epoch, and each turn its own: by an option that the loop counts, too."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epoch", type=int, default=0)
parser.add_argument("--epochs", type=int, default=9)


def train_one(args, sampler, loader, model, optimizer):
    sampler.set_epoch(args.epoch)
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def train(args, model, optimizer):
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    sampler.set_epoch(args.epoch)
    for epoch in range(args.epoch, args.epochs):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    other = DistributedSampler(data)
    while args.epoch < args.epochs:
        train_one(args, other, DataLoader(data, batch_size=8, sampler=other), model, optimizer)
        args.epoch += 1


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
train(parser.parse_args(), net, torch.optim.SGD(net.parameters(), lr=0.1))
