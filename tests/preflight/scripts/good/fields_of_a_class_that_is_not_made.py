# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
from dataclasses import dataclass, fields


@dataclass
class Totals:
    loss: float = 0.0

    def __post_init__(self):
        value = torch.zeros(1).cuda()
        dist.all_reduce(value)
        self.world = value.item()


totals = Totals()
for _ in range(9):
    model(torch.ones(4, 4).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    print([each.name for each in fields(Totals)])
