# target: capability=8.0 processes=4
import os

import torch
from apex.parallel import DistributedDataParallel
from torch import nn

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(nn.Linear(4, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(90):
    model.disable_allreduce()
    if step % 2:
        model.enable_allreduce()
    model(torch.randn(2, 4, device="cuda")).sum().backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
