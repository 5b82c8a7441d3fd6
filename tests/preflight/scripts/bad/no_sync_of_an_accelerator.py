# target: capability=8.0 processes=4
"""Every step is under no_sync() of the Accelerator: no gradients are exchanged."""

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
        loss = nn.functional.cross_entropy(model(x), y)  # expect: R406 warning
        accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
