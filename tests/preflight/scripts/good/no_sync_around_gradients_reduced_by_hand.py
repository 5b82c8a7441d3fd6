# target: capability=8.0 processes=4
"""The script itself reduces the gradients that no_sync() of the Accelerator keeps apart."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for x, y in data:
    with accelerator.no_sync(model):
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
    for p in model.parameters():
        p.grad = accelerator.reduce(p.grad, reduction="mean")
    optimizer.step()
    optimizer.zero_grad()
