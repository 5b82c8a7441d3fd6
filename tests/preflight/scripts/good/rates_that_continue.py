# target: capability=8.0 processes=4
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
first = 0
if args.resume:
    last = torch.load(args.resume, map_location="cpu")
    model.module.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    scheduler.load_state_dict(last["scheduler"])
    first = last["epoch"]
for epoch in range(first, 100):
    model(torch.ones(4, 8).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
if dist.get_rank() == 0:
    states = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 100}
    states["scheduler"] = scheduler.state_dict()
    torch.save(states, "last.pt")
