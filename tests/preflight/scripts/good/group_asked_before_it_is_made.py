# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist

if dist.is_available() and dist.is_initialized():
    print(dist.get_rank())
if not dist.is_initialized():
    dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print(dist.get_rank())
