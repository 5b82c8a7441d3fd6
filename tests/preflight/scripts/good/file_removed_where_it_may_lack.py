# target: capability=8.0 processes=4 args=
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
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
try:
    os.remove("old.pt")
except FileNotFoundError:
    pass
with contextlib.suppress(FileNotFoundError):
    os.remove("older.pt")
for e in range(3):
    s.set_epoch(e)
    for x, y in tl:
        loss = F.cross_entropy(m(x.cuda()), y.cuda())
        o.zero_grad()
        loss.backward()
        o.step()
