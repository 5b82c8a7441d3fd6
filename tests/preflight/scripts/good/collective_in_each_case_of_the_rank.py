import os
import sys

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
x = torch.ones(1, device="cuda")
match dist.get_rank():
    case 0:
        print("reduces")
        dist.all_reduce(x)
    case _:
        dist.all_reduce(x)
match sys.argv[-1]:
    case "first":
        dist.barrier()
    case _:
        dist.broadcast(x, 0)
while dist.get_rank() == 0 and x.item() < 4:
    x += 1
while x.item() < 40:
    dist.all_reduce(x)
