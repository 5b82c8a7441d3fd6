import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.extra = nn.Linear(2, 2), nn.Linear(2, 2)
        self.heads = nn.ModuleDict({"label": nn.Linear(2, 2)})

    def forward(self, x, task, scale=1, mask=None):
        if mask is not None:
            x = self.extra(x)
        if scale % 2:
            x = x * 2
        return self.heads[task](self.trunk(x))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Heads().cuda(), static_graph=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(10):
    loss = model(torch.ones(2, 2).cuda(), "label", scale=step % 2, mask=torch.rand(2) > 0.5).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
