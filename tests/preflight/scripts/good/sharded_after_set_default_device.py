# target: capability=8.0 processes=4
"""FSDP shards what is made on the rank's own GPU, the default device."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
torch.set_default_device(f"cuda:{rank}")
model = FSDP(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load(f"data-{rank}.pt"):
    loss = model(x.to(rank)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
