# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

dist.init_process_group("nccl")
rank = dist.get_rank()
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


class D(IterableDataset):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        while True:
            yield self.data[torch.randint(len(self.data), (1,)).item()]


dl = DataLoader(D(torch.randn(64, 4)), batch_size=4)
m2 = DDP(nn.Linear(4, 2).cuda(), device_ids=[lr])
o2 = torch.optim.SGD(m2.parameters(), 0.1)
for e in range(3):
    for x in dl:
        l = m2(x.cuda()).sum()
        o2.zero_grad()
        l.backward()
        o2.step()
