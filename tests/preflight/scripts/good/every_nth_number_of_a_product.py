"""Each rank takes as many numbers as the others: their count is a multiple of the ranks."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
count = 100 * world
for number in range(rank, count, world):
    torch.manual_seed(number)
    optimizer.zero_grad()
    model(torch.randn(4, 8).cuda()).sum().backward()
    optimizer.step()
