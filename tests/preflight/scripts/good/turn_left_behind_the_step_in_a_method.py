# target: capability=8.0 processes=4
import os
import torch
import torch.distributed as dist
from torch import nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from data import dataset


class Trainer:
    def __init__(self):
        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        self.model = DDP(nn.Linear(16, 4).cuda(), device_ids=[rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def epoch(self, loader):
        class Meter:
            def step(self, loss):
                self.value = loss.item()

        meter = Meter()
        for x, y in loader:
            loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            self.step(loss)
            if loss.item() > 10:
                continue
            meter.step(loss)


dist.init_process_group("nccl")
data = dataset()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=sampler)
trainer = Trainer()
for epoch in range(3):
    sampler.set_epoch(epoch)
    trainer.epoch(loader)
