# target: capability=8.0 processes=4
"""A writer that is None on the other ranks guards as a comparison with the rank does."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter


def train_one_epoch(model, loader, optimizer, writer=None):
    for step, batch in enumerate(loader):
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if writer is not None and step % 10 == 0:
            dist.all_reduce(loss)  # expect: R404 error
            writer.add_scalar("loss", loss.item(), step)


def main(log_dir="runs"):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    if dist.get_rank() == 0 and log_dir is not None:
        writer = SummaryWriter(log_dir)
    else:
        writer = None
    model = DistributedDataParallel(nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    data = torch.randn(64, 8)
    sampler = DistributedSampler(data)  # expect: R403 warning
    loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 4, drop_last=True))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        train_one_epoch(model, loader, optimizer, writer)


main()
