# target: capability=8.0 processes=4
"""FSDP shards what is a part of a model on the GPU."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).to(rank)
model[0] = FSDP(model[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load(f"data-{rank}.pt"):
    loss = model(x.to(rank)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
