import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def build(data, train):
    sampler = DistributedSampler(data, shuffle=train)  # expect: R403 warning
    return DataLoader(data, 4, sampler=sampler), sampler


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
train_loader, _ = build(range(80), True)
other_loader, other_sampler = build(range(80), False)
model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    other_sampler.set_epoch(epoch)
    for batch in train_loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
