# target: capability=8.0 processes=4
"""Without --multiprocessing the model is refused: what the option decides later is as if it were given."""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--multiprocessing", action="store_true")
args = parser.parse_args()
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = nn.Linear(8, 8).cuda()
if args.multiprocessing:
    model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
else:
    raise NotImplementedError("only DistributedDataParallel is supported")
data = torch.randn(64, 8)
sampler = DistributedSampler(data) if args.multiprocessing else None
loader = DataLoader(data, shuffle=sampler is None, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    if args.multiprocessing:
        sampler.set_epoch(epoch)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
