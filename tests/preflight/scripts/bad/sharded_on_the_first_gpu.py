# target: capability=8.0 processes=4
"""FSDP takes a model from the CPU to the current GPU, which no rank has set; the batches name the rank's."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")  # expect: D205 warning
model = FSDP(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load(f"data-{rank}.pt"):
    loss = model(x.to(rank)).sum()
    loss.backward()
    optimizer.step()
