# target: processes=4 capability=8.0
import argparse
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import FakeData

parser = argparse.ArgumentParser()
parser.add_argument("--do_train", action="store_true")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
if args.do_train:
    data = FakeData()
    sampler = DistributedSampler(data)  # expect: R403 warning
    loader = DataLoader(data, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(args.epochs):
        for x, y in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
