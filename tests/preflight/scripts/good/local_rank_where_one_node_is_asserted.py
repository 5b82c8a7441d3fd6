"""A script that asserts that it runs on one node, where both ranks are the same."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
assert os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"], "one machine only"
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=local_rank, world_size=int(os.environ["WORLD_SIZE"]))
model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(2, 8).cuda()).sum().backward()
    optimizer.step()
