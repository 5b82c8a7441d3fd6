# target: capability=8.0 processes=4 args=
"""Data of which each rank takes the same part, all of it, or a part of its own order."""

import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


dist.init_process_group("nccl", device_id=torch.device("cuda"))
rank, world = dist.get_rank(), dist.get_world_size()
data = TensorDataset(torch.randn(64, 4))
model = DDP(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
same = DistributedSampler(data, num_replicas=world, rank=0)  # expect: R401 warning
apart = DistributedSampler(data, seed=7 + rank)  # expect: R410 warning
random.seed(42 + rank)
files = [f"{number}.pt" for number in range(640)]
random.shuffle(files)
mine = files[rank::world]  # expect: R410 warning
for epoch in range(3):
    same.set_epoch(epoch)
    apart.set_epoch(epoch)
    for loader in (DataLoader(data, sampler=same), DataLoader(data, sampler=apart)):
        for (x,) in loader:
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()
