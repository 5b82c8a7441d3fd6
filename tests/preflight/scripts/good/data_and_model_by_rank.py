# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from apex.parallel import DistributedDataParallel as DDP

gpu = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
model = DDP(torch.nn.Linear(4, 4).cuda(gpu))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.ones(64, 4).split(4):
    model(batch.cuda(gpu, non_blocking=True)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
