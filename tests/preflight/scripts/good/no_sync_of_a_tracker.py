# target: capability=8.0 processes=2
import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Tracker:
    @contextlib.contextmanager
    def no_sync(self):
        self.offline = True
        yield
        self.offline = False


tracker = Tracker()
with tracker.no_sync():
    for _ in range(9):
        model(torch.ones(4, 4).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
