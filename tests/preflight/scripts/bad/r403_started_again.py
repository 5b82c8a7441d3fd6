# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


class Endless:
    def __init__(self, loader):
        self.loader = loader
        self.batches = iter(loader)

    def __next__(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
rows = torch.randn(64, 4)
endless = Endless(DataLoader(rows, 4, sampler=DistributedSampler(rows)))  # expect: R403 warning
for _ in range(1000):
    optimizer.zero_grad()
    model(next(endless).cuda()).sum().backward()
    optimizer.step()
