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
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for _ in range(9):
    loss = model(torch.ones(4, 4).cuda()).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        plateau.step(loss.item())
    states = [optimizer.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(states, src=0)
    optimizer.load_state_dict(states[0])
