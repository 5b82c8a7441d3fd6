# target: capability=8.0 processes=4
"""An ExitStack calls at its end what it was given, for the ranks that gave it."""
import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def prepare(rank):
    with contextlib.ExitStack() as stack:
        stack.callback(dist.barrier)
        if rank == 0:
            stack.callback(dist.all_reduce, torch.zeros(1))  # expect: R404 error
            stack.callback(print, "prepared")


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
closing = contextlib.ExitStack()
closing.callback(torch.set_default_dtype, torch.float16)  # expect: P102 error
prepare(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(9):
    model(torch.randn(4, 2).cuda()).sum().backward()
    optimizer.step()
closing.close()
head = torch.nn.Linear(2, 2).cuda()
adam = torch.optim.Adam(head.parameters())
for _ in range(9):
    head(torch.randn(4, 2).cuda().half()).sum().backward()
    adam.step()
