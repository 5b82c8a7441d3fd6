# target: capability=8.0 processes=4
"""What a sampler of test data repeats is the order of no training."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


def cycle(loader):
    while True:
        for batch in loader:
            yield batch


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).cuda())
test_set = torch.randn(64, 8)
test_sampler = DistributedSampler(test_set)
held_out = cycle(DataLoader(test_set, sampler=test_sampler))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.randn(4, 8, device="cuda")).mean().backward()
    optimizer.step()
    if step % 10 == 0:
        with torch.no_grad():
            model(next(held_out))
