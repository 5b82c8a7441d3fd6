# target: capability=8.0 processes=4
"""FSDP shards what is made on the rank's own GPU, inside of its block."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
with torch.device("cuda", rank):
    net = nn.Linear(8, 2)
model = FSDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load(f"data-{rank}.pt"):
    loss = model(x.to(rank)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
