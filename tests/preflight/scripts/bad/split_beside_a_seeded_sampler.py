# target: capability=8.0 processes=4
"""The seed of a sampler seeds nothing that divides the data before it."""
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
train, held = random_split(TensorDataset(torch.ones(99, 2)), [90, 9])  # expect: R410 warning
loader = DataLoader(train, 4, sampler=DistributedSampler(train, seed=0))
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda())
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for (x,) in loader:
        net(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
