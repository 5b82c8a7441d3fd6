# target: capability=8.0 processes=4
import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for turn in range(64):
    exchange = model.no_sync if turn % 4 != 0 else contextlib.nullcontext  # expect: R415 warning
    with exchange():
        (model(torch.ones(4, 8).cuda()).sum() / 4).backward()
    if (turn + 1) % 4 == 0:
        optimizer.step()  # expect: R415 info
        optimizer.zero_grad()
