# target: capability=8.0 processes=4
"""DDP has the GPU of the rank, and the model lies on the first one."""

import os

import torch
from torch import nn

local_rank = int(os.environ["LOCAL_RANK"])
torch.distributed.init_process_group("nccl")  # expect: D205 warning
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[local_rank])
