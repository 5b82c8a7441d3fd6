import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from net import build
from data import make_loader

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = build().cuda(local_rank)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
start = 0
if os.path.exists("last.pt"):
    ckpt = torch.load("last.pt")  # expect: C503 warning
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    start = ckpt["epoch"] + 1
model = DDP(model, device_ids=[local_rank])
loader, sampler = make_loader()
for epoch in range(start, 10):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda(local_rank)), y.cuda(local_rank)).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
