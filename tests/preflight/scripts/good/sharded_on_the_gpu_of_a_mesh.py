# target: capability=8.0 processes=4
"""FSDP shards what comes from the CPU to the GPU that init_device_mesh() has set."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
model = FSDP(nn.Linear(8, 2), device_mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load(f"data-{rank}.pt"):
    loss = model(x.to(rank)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
