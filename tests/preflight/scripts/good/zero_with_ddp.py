import os

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = getattr(torch.nn.parallel, "DistributedDataParallel")(torch.nn.Linear(4, 4).cuda())
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
for _ in range(3):
    model(torch.ones(4, 4, device="cuda")).sum().backward()
    optimizer.step()
