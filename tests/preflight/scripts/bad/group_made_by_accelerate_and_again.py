# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist
from accelerate import Accelerator

accelerator = Accelerator()
dist.init_process_group("nccl")  # expect: R412 warning
model = accelerator.prepare(torch.nn.Linear(2, 2))
