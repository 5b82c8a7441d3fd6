# target: capability=8.0 processes=2
import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@contextlib.contextmanager
def exchanging(last):
    if last:
        yield
    else:
        with model.no_sync():
            yield


for number in range(9):
    last = number % 3 == 2
    with exchanging(last):
        model(torch.ones(4, 4).cuda()).sum().backward()
    with contextlib.ExitStack() as stack:
        if not last:
            stack.enter_context(model.no_sync())
        model(torch.ones(4, 4).cuda()).sum().backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
