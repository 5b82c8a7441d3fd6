# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
rate = torch.zeros(1).cuda()
for _ in range(9):
    loss = model(torch.ones(4, 4).cuda()).sum()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        schedule.step(loss.item())
        rate.fill_(optimizer.param_groups[0]["lr"])
    dist.broadcast(rate, 0)
    optimizer.param_groups[0]["lr"] = rate.item()
