# target: capability=8.0 processes=4
"""empty_cache() does nothing while CUDA is not in use."""
import os

import torch
import torch.distributed as dist

torch.cuda.empty_cache()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(4, 4).cuda()
