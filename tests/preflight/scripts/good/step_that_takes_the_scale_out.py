# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from apex.optimizers import FusedMixedPrecisionLamb
from torch.nn.parallel import DistributedDataParallel as DDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 4).cuda())
optimizer = FusedMixedPrecisionLamb(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(9):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(4, 4).cuda()).sum()
    scaler.scale(loss).backward()
    optimizer.step(grad_scaler=scaler)
    scaler.update()
    optimizer.zero_grad()
