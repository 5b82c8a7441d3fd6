# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
learner = dist.get_world_size() - 1
policy = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for _ in range(9):
    for weight in policy.parameters():
        dist.broadcast(weight.data, src=learner)
    with torch.no_grad():
        played = policy(torch.ones(4, 4).cuda())
    parts = [torch.empty_like(played) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, played)
    if rank == learner:
        policy(torch.cat(parts)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
