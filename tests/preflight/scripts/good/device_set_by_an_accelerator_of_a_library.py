# target: processes=4
import os

import torch
import torch.distributed as dist
from engines import get_accelerator

get_accelerator().set_device(int(os.environ["RANK"]) % 4)
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda()
