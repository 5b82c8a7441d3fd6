# target: processes=4 capability=8.0
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Sampler
from torchvision.datasets import FakeData


class Chunks(Sampler):
    def __init__(self, data):
        self.data, self.epoch = data, 0

    def __iter__(self):
        return iter(torch.randperm(len(self.data)).tolist())

    def set_epoch(self, epoch):
        self.epoch = epoch


class Parts(Chunks):
    def __iter__(self):
        return iter(list(super().__iter__())[dist.get_rank() :: dist.get_world_size()])


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = FakeData()
loaders = (
    DataLoader(data, sampler=DistributedSampler(data)),  # expect: R403 warning
    DataLoader(data, sampler=RandomSampler(data)),  # expect: R401 warning
    DataLoader(data, sampler=Chunks(data)),  # expect: R401 warning
    DataLoader(data, sampler=Parts(data)),
)
for loader in loaders:
    for epoch in range(3):
        for x, y in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
