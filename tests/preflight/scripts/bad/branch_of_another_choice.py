# target: capability=8.0 processes=4
import argparse

import torch
from common import init_dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--launcher", choices=["none", "pytorch", "slurm"], default="none")
args = parser.parse_args()
model = torch.nn.Linear(4, 4).cuda()
if args.launcher == "none":
    distributed = False
else:
    init_dist(args.launcher)
    distributed = True
if distributed:
    model = DistributedDataParallel(model, device_ids=[0])  # expect: D201 warning
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(10):
    model(batch).backward()
    optimizer.step()
