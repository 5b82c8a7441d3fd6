# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 8)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x))


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = FSDP(Probe().cuda())  # expect: R420 warning
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = Images("train")
sampler = DistributedSampler(data)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, sampler=sampler):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
