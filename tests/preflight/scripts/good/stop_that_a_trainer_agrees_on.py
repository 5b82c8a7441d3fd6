# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
world = dist.get_world_size()
lr = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(lr)
ds = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
val = TensorDataset(torch.randn(32, 4), torch.zeros(32).long())
s = DistributedSampler(ds)
tl = DataLoader(ds, 8, sampler=s, drop_last=True)
vs = DistributedSampler(val, shuffle=False)
vl = DataLoader(val, 8, sampler=vs)
m = DDP(nn.Linear(4, 2).cuda(), device_ids=[lr])
o = torch.optim.SGD(m.parameters(), 0.1)



class Trainer:
    def __init__(self, patience):
        self.patience = patience
        self.best = 9e9
        self.bad = 0
        self.should_stop = False

    def epoch(self, number):
        s.set_epoch(number)
        total = torch.zeros(1, device="cuda")
        for x, y in tl:
            loss = F.cross_entropy(m(x.cuda()), y.cuda())
            o.zero_grad()
            loss.backward()
            o.step()
            total += loss.detach()
        dist.all_reduce(total)
        mean = total.item() / world
        self.bad = 0 if mean < self.best else self.bad + 1
        self.best = min(mean, self.best)
        self.should_stop = self.bad > self.patience

    def fit(self):
        for number in range(9):
            self.epoch(number)
            if self.should_stop:
                break


Trainer(3).fit()
