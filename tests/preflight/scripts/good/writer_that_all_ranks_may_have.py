# target: capability=8.0 processes=4
"""A writer by an option is the same on every rank, and set_epoch reaches the sampler of a BatchSampler."""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--log-dir")
args = parser.parse_args()
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
writer = SummaryWriter(f"{args.log_dir}/{local_rank}") if args.log_dir else None
model = DistributedDataParallel(nn.Linear(8, 8).cuda(), device_ids=[local_rank])
data = torch.randn(64, 8)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 4, drop_last=True))
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if writer is not None:
            dist.all_reduce(loss)
            writer.add_scalar("loss", loss.item(), epoch)
