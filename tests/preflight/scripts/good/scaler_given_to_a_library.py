import torch
from fast_loops import Loop
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
loop = Loop(model, scaler)
for batch in range(3):
    loop.backward(model(batch).sum())
    scaler.step(optimizer)
    scaler.update()
