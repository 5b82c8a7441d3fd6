# target: capability=8.0 processes=4
"""A switch that is off beside the question for the rank: an error only where it is given."""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--debug-loss", action="store_true")
args = parser.parse_args()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
first = dist.get_rank() == 0
model = FullyShardedDataParallel(nn.Linear(8, 8).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(4, 8, device="cuda")
for step in range(100):
    model(batch).mean().backward()
    optimizer.step()
    if first and args.debug_loss and step % 10 == 0:
        with torch.no_grad():
            model(batch.float())  # expect: R404 warning
