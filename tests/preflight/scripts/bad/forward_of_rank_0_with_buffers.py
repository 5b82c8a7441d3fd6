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
        self.register_buffer("mask", torch.ones(8))
        self.body = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.body(x) * self.mask


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
rank = dist.get_rank()
model = DistributedDataParallel(Net().cuda(), device_ids=[local_rank])
data = Images("train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    if rank == 0:
        model.eval()
        with torch.no_grad():
            for x, y in DataLoader(Images("test"), batch_size=8):
                print(model(x.cuda()).argmax(1))  # expect: R404 warning
        model.train()
