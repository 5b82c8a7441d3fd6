import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, task):
        return self.first(x) if task == 0 else self.second(x)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Heads().cuda(), static_graph=True)  # expect: R431 warning
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    task = step % 2
    loss = model(torch.ones(2, 2).cuda(), task).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
