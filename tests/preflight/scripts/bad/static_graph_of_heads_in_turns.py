import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WRAP = {"gradient_as_bucket_view": True, "static_graph": True}  # expect: R431 warning


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(2, 2)
        self.heads = nn.ModuleDict({"label": nn.Linear(2, 2), "angle": nn.Linear(2, 2)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        if self.training and random.random() < 0.1:
            return self.first(x)
        return self.second(self.first(x))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Heads().cuda(), **WRAP)
dropped = DistributedDataParallel(Dropped().cuda(), static_graph=True)  # expect: R431 warning
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    task = "angle" if step % 2 else "label"
    loss = model(torch.ones(2, 2).cuda(), task).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
