# target: processes=4 capability=8.0
import os

import torch
import torch.distributed as dist
from engine import Engine

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
engine = Engine(local_rank)
for _ in range(10):
    engine.step(torch.randn(8, 16).cuda())
