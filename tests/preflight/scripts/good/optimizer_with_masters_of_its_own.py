# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from apex.optimizers import FusedAdam
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
sharded = torch.nn.Linear(4, 4).half().cuda()
fully_shard(sharded)
whole = DistributedDataParallel(torch.nn.Linear(4, 4).half().cuda())
for model in (sharded, whole):
    optimizer = FusedAdam(model.parameters(), master_weights=True)
    for _ in range(9):
        model(torch.ones(4, 4).cuda().half()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
