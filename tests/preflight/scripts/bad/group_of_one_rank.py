# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl", device_id=torch.device("cuda"), rank=0, world_size=1)  # expect: D207 warning
model = DDP(torch.nn.Linear(2, 2).cuda())
