# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
policy = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for _ in range(9):
    for weight in policy.parameters():
        dist.broadcast(weight.data, src=0)
    with torch.no_grad():
        played = policy(torch.ones(4, 4).cuda())
    if dist.get_rank() == 0:
        parts = [torch.empty_like(played) for _ in range(dist.get_world_size())]
        dist.gather(played, parts, dst=0)
        policy(torch.cat(parts)).sum().backward()
        optimizer.step()
    else:
        dist.gather(played, dst=0)
