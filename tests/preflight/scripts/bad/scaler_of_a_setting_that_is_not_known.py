# target: capability=8.0
"""Whether the scaler is on, or which optimizer it steps, is not known: a fault where it is on all the same."""
import importlib
import sys

import torch
import yaml

config = yaml.safe_load(open(sys.argv[1]))
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda", enabled=config["fp16"])
scalars = {}
for step in range(10):
    loss = model(torch.zeros(4, 4).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # expect: P128 warning
    scalars.update({"loss": loss.item()})
