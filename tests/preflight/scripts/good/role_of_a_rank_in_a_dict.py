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
role = {0: "leader"}.get(rank, "follower")
names = {0: "first.pt", 1: "second.pt"}
for _ in range(9):
    model(torch.ones(4, 4).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if role == "leader":
        torch.save(model.state_dict(), "last.pt")
torch.save(optimizer.state_dict(), names[rank])
