# target: capability=8.0 processes=4
import argparse
import os
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
if args.local_rank != -1:
    port = random.randint(10000, 20000)
    os.environ["MASTER_PORT"] = str(port)  # expect: D207 warning
    torch.cuda.set_device(args.local_rank)
    dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[args.local_rank])
data = Images("train")
sampler = DistributedSampler(data)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
