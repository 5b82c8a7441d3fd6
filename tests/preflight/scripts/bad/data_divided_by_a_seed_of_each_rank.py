"""A seed by rank divides the data in another way on each rank."""
# target: capability=8.0 processes=4

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, random_split

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(42 + dist.get_rank())
train, val = random_split(range(100), [90, 10])  # expect: R410 warning
sampler = DistributedSampler(train)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in DataLoader(train, batch_size=8, sampler=sampler):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
