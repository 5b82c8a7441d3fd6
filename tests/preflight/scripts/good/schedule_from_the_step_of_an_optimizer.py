# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.AdamW(model.parameters())
start = 0
if os.path.exists("last.pt"):
    last = torch.load("last.pt", map_location="cpu")
    model.module.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    start = last["step"]
scheduler = LambdaLR(optimizer, lambda step: 1 / (1 + step), last_epoch=start - 1)
for step in range(start, 100):
    model(torch.ones(4, 8).cuda()).sum().backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": 100}, "last.pt")
