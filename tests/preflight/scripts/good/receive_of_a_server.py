# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

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


def server():
    for r in range(1, world):
        t = torch.zeros(2).cuda()
        dist.recv(t, src=r)
        dist.send(t, dst=r)


def worker():
    t = torch.ones(2).cuda()
    dist.send(t, dst=0)
    dist.recv(t, src=0)


server() if rank == 0 else worker()
