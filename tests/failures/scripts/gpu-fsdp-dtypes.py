import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as F


def net(**k):
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(**k)


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")

m = net(device="cuda")
m[0].bfloat16()
F(m)
