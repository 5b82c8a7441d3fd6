import torch
import torch.distributed as dist
from torch.distributed import Backend

print("rank", dist.get_rank())  # expect: R412 warning
torch.distributed.init_process_group(backend=Backend.NCCL, init_method="env://")
# target: capability=8.0 processes=4
