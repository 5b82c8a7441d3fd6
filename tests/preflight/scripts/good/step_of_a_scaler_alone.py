# target: capability=8.0 processes=2
import torch
from torch.cuda.amp import GradScaler, autocast

one, other = torch.nn.Linear(8, 1).cuda(), torch.nn.Linear(8, 1).cuda()
first = torch.optim.AdamW(one.parameters())
second = torch.optim.AdamW(other.parameters())
scaler = GradScaler()
for _ in range(10):
    first.zero_grad()
    second.zero_grad()
    with autocast():
        loss = one(torch.ones(4, 8).cuda()).sum() + other(torch.ones(4, 8).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
