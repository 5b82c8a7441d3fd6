# target: processes=4 capability=8.0
# Rank 0 alone evaluates; the pair of barriers belongs to a call by all ranks, and is not reached then.
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def load(options, task, evaluate):
    if options.local_rank not in [-1, 0] and not evaluate:
        dist.barrier()
    data = TensorDataset(torch.load(task))
    if options.local_rank == 0 and not evaluate:
        dist.barrier()
    return data


def evaluate(options, model):
    with torch.no_grad():
        for (batch,) in DataLoader(load(options, "dev.pt", options.cached), batch_size=8):
            model.module(batch.cuda())


parser = argparse.ArgumentParser()
parser.add_argument("--cached", type=int, default=int(os.environ.get("CACHED", "1")))
parser.add_argument("--train", action="store_true")
options = parser.parse_args()
options.local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(options.local_rank)
dist.init_process_group("nccl")
if options.local_rank not in [-1, 0]:
    dist.barrier()
weights = torch.nn.Linear(16, 4)
if options.local_rank == 0:
    dist.barrier()
model = DDP(weights.cuda(), device_ids=[options.local_rank])
optimizer = torch.optim.SGD(model.parameters(), 0.01)
if options.train:
    data = load(options, "train.pt", False)
    for (batch,) in DataLoader(data, batch_size=8, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        model(batch.cuda()).sum().backward()
        optimizer.step()
if options.local_rank in [-1, 0]:
    evaluate(options, model)
