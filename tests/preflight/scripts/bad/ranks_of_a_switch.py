# target: capability=8.0 processes=4
"""A script that has ranks with a switch only: a launch of several gives it."""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--out", default="out.pt")
args = parser.parse_args()
rank = 0
if args.distributed:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(4, 4).cuda()
if args.distributed:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loss = model(torch.zeros(4, 4).cuda()).sum()
loss.backward()
optimizer.step()
if args.distributed and rank == 0:
    dist.all_reduce(loss)  # expect: R404 warning
if args.distributed:
    torch.save(model.state_dict(), args.out)  # expect: R405 warning
