import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)).cuda()
net.half()  # expect: P101 error
optimizer = torch.optim.Adam(net.parameters())
scaler = GradScaler()
for x in range(10):
    optimizer.zero_grad()
    with autocast():
        loss = net(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
