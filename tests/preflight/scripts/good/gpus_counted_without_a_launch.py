"""The number of GPUs is that of ranks only where no launch says it."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ.get("LOCAL_RANK", 0))
world_size = int(os.environ.get("WORLD_SIZE", torch.cuda.device_count()))
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=int(os.environ.get("RANK", local_rank)), world_size=world_size)
model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(2, 8).cuda()).sum().backward()
    optimizer.step()
