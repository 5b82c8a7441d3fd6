# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.body(x)


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = Net().cuda()
if dist.get_world_size() > 1:
    model = DistributedDataParallel(model, device_ids=[local_rank])
if dist.get_world_size() > 1:
    inner = model.module
else:
    inner = model
optimizer = torch.optim.SGD(inner.body.parameters(), lr=0.1)
data = Images("train")
sampler = DistributedSampler(data)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
