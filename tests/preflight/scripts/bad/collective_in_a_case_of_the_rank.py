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
        dist.all_reduce(x)  # expect: R404 warning
    case _:
        print("waits")
match dist.get_rank() == 0:
    case True:
        dist.broadcast(x, 0)  # expect: R404 warning
    case _:
        pass
match sys.argv[-1]:
    case "last" if dist.get_rank() == 0:
        dist.barrier()  # expect: R404 warning
while dist.get_rank() == 0 and x.item() < 4:
    dist.reduce(x, 0)  # expect: R404 warning
