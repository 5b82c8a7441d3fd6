# target: capability=8.0 processes=4
"""no_sync() of the Accelerator or Fabric around all batches but the last before a step."""

import contextlib

import lightning
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for step, (x, y) in enumerate(data):
    last = step % 4 == 3
    with contextlib.nullcontext() if last else accelerator.no_sync(model):
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
    if last:
        optimizer.step()
        optimizer.zero_grad()

fabric = lightning.Fabric(devices=4)
fabric.launch()
net = nn.Linear(8, 2)
stepper = torch.optim.SGD(net.parameters(), lr=0.1)
net, stepper = fabric.setup(net, stepper)
batches = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=8))
for step, (x, y) in enumerate(batches):
    with fabric.no_backward_sync(net, enabled=step % 4 != 3):
        fabric.backward(nn.functional.cross_entropy(net(x), y))
    if step % 4 == 3:
        stepper.step()
        stepper.zero_grad()
fabric.save("net.ckpt", {"net": net})
