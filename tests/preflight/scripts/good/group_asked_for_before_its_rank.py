import torch
import torch.distributed as dist
from torch.distributed import Backend

rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
alone = not dist.is_initialized() or dist.get_world_size() == 1
torch.distributed.init_process_group(backend=Backend.NCCL, init_method="env://")
print(rank, alone, dist.get_rank())
# target: capability=8.0 processes=4
