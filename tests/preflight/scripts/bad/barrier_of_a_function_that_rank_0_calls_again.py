# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images, prepare


def load(rank, part):
    if rank != 0:
        dist.barrier()
    path = prepare(part)
    if rank == 0:
        dist.barrier()  # expect: R404 warning
    return Images(path)


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
data = load(rank, "train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
if rank == 0:
    print(len(load(rank, "test")))
