import torch
import torch.distributed as dist
from serving import serve
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(3)
if rank == 0:
    serve(x)
else:
    dist.broadcast(x, 0)  # expect: R404 info
