# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DDP(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for _ in range(9):
    loss = model(torch.ones(4, 4).cuda()).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        plateau.step(loss.item())
    rates = [0.0] * dist.get_world_size()
    dist.all_gather_object(rates, optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        group.update(lr=rates[0])
