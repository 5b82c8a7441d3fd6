"""The files are cut to a multiple of the ranks in one function, and divided in another."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def cut(files, world):
    return files[: len(files) // world * world]


def train(model, optimizer, files, rank, world):
    for file in files[rank::world]:
        optimizer.zero_grad()
        model(torch.load(file).cuda()).sum().backward()
        optimizer.step()


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, cut(sorted(os.listdir("data")), world), rank, world)
