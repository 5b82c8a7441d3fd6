"""Parts of scripts that several tests put together: a model in DDP, and the step of its training loop."""

DDP = """
import os, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
opt = torch.optim.AdamW(net.parameters())
"""
STEP = """
    net(batch.cuda()).sum().backward()
    opt.step()
    opt.zero_grad()
"""
