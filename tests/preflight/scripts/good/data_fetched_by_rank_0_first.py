# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, random_split
from torchvision import datasets

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(1)
if dist.get_rank() != 0:
    dist.barrier()
data = datasets.CIFAR10("data", train=True, download=True)
if dist.get_rank() == 0:
    dist.barrier()
train, val = random_split(data, [45000, 5000])
sampler = DistributedSampler(train)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in DataLoader(train, batch_size=8, sampler=sampler):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
