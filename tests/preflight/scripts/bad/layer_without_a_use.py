# target: capability=8.0 processes=2
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from volumes import Volumes


class Net(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.stem = nn.Conv2d(1, dim, 3)
        self.skip = nn.Sequential(nn.Conv2d(1, dim, 1), nn.ReLU())  # expect: R418 warning
        self.head = nn.Conv2d(dim, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        # x = x + self.skip(x)
        return self.head(x)


torch.distributed.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(Net().cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Volumes()
sampler = DistributedSampler(data)
for epoch in range(9):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, sampler=sampler):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
