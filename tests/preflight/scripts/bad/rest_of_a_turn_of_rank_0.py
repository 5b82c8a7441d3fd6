# target: capability=8.0 processes=4
"""What follows a `continue` of the other ranks is reached by rank 0 only, until the turn ends."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
first = dist.get_rank() == 0
for epoch in range(4):
    if not first:
        continue
    torch.save(model.module.state_dict(), "model.pt")
    dist.barrier()  # expect: R404 error
for epoch in range(4):
    dist.barrier()
    if not first:
        break
    torch.save(model.module.state_dict(), "last.pt")
dist.barrier()
