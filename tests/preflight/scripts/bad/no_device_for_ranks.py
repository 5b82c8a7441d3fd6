# target: processes=2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")  # expect: D205 error
model = DDP(nn.Linear(2, 2).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
