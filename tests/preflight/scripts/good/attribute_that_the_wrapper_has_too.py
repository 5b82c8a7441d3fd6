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
        self.training_steps = 10
        self.device = 10
        self.body = torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.body(x)


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
        scores = model(x.cuda())
        loss = torch.nn.functional.cross_entropy(scores.view(-1, 10 if model.device else model.training), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
