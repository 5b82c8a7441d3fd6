"""The first epoch is set before the loop, for a run that goes on, or in it and in each turn again."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--start_epoch", type=int, default=0)
parser.add_argument("--epochs", type=int, default=9)


def train(args, model, optimizer):
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data)  # expect: R403 warning
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    sampler.set_epoch(args.start_epoch)
    for _ in range(args.start_epoch, args.epochs):
        for (batch,) in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def train_again(args, model, optimizer):
    data = TensorDataset(torch.zeros(64, 4))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))  # expect: R403 warning
    for _ in range(args.start_epoch, args.epochs):
        loader.sampler.set_epoch(args.start_epoch)
        for (batch,) in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
train(parser.parse_args(), net, sgd)
train_again(parser.parse_args(), net, sgd)
