# target: capability=8.0
import torch

import models

model = models.__dict__["resnet"]()
model.to("cuda").half()  # expect: P101 warning
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for batch in range(10):
    loss = model(torch.zeros(4, 4)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
