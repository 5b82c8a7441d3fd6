# target: capability=8.0 processes=2
"""Engines that were not read may exchange the gradients of what they are given."""
import os

import torch
import torch.distributed as dist
from engine_of_others import Engine
from torch import nn

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Linear(8, 8).cuda()
engine = Engine(stage=2)
model = engine.setup(model)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    model(torch.randn(4, 8).cuda()).mean().backward()
    optimizer.step()
