# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.ours = nn.Linear(8, 10)
        self.theirs = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.ours(x), self.theirs(x)


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(Net().cuda(), device_ids=[local_rank])
data = Images("train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        ours, theirs = model(x.cuda())  # expect: R418 warning
        loss = nn.functional.cross_entropy(ours, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
