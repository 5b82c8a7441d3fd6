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
judge = DDP(torch.nn.Linear(4, 1).cuda())
for weight in judge.parameters():
    weight.requires_grad_(True)
for _ in range(9):
    with judge.no_sync():
        made = model(torch.ones(4, 4).cuda())
        judge(made).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
