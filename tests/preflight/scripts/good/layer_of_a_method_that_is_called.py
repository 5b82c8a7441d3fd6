# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8)
        self.lm_head = nn.Linear(8, 100)

    def hidden(self, ids):
        return self.embed(ids)

    def forward(self, ids):
        return self.lm_head(self.hidden(ids))


class Reward(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(8, 1)

    def forward(self, ids):
        return self.head(self.backbone(ids)[:, -1])


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(Reward().cuda(), device_ids=[local_rank])
data = Images("train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for ids, y in DataLoader(data, batch_size=8, sampler=sampler):
        loss = nn.functional.mse_loss(model(ids.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
