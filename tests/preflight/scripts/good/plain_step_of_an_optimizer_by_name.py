# target: capability=8.0
import importlib
import sys

import torch

config = importlib.import_module(f"configs.{sys.argv[1]}")
model = torch.nn.Linear(4, 4).cuda()
optimizer = importlib.import_module("optimizers").make(model.parameters())
scheduler = importlib.import_module("optimizers").schedule(optimizer)
scaler = torch.amp.GradScaler("cuda", enabled=config.fp16)
for step in range(10):
    loss = model(torch.zeros(4, 4).cuda()).sum()
    if config.fp16:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    scheduler.step()
