# target: capability=7.5 processes=2
"""-1 stands for "not distributed"; no GPU has that number."""

import argparse

import torch
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
params = parser.parse_args()
torch.cuda.set_device(params.local_rank)
torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[params.local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
