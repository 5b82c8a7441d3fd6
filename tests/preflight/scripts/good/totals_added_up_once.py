import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
loader = DataLoader(dataset(), batch_size=8, sampler=DistributedSampler(dataset(), shuffle=False))
whole, batch, last, top = (torch.zeros(1, device="cuda") for _ in range(4))
layer = torch.nn.Linear(8, 1).cuda()
for x, y in loader:
    whole += x.cuda().sum()
    batch.zero_()
    batch += x.cuda().sum()
    dist.all_reduce(batch)
    last += x.cuda().sum()
    dist.all_reduce(last)
    last = torch.zeros(1, device="cuda")
    top += x.cuda().sum()
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    copy = whole.clone()
    dist.all_reduce(copy)
for weight in layer.parameters():  # each turn has another one
    weight += 1
    dist.all_reduce(weight)
dist.all_reduce(whole)
print(whole)
# target: capability=8.0 processes=4
