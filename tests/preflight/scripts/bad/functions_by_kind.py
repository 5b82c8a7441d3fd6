# target: capability=8.0 processes=4
"""Which function a single dispatch calls is not known: its default, which raises, does not end the script."""
from functools import singledispatch

import torch
from accelerate import Accelerator
from torch import nn


@singledispatch
def place(part, device):
    raise TypeError(type(part))


@place.register
def _(part: nn.Module, device):
    return part.to(device)


accelerator = Accelerator()
place(nn.Linear(2, 2), accelerator.device)
model = nn.Linear(2, 2).to("cuda:0")  # expect: D201 error
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(10):
    accelerator.backward(model(torch.randn(2, 2, device=accelerator.device)).sum())
    optimizer.step()
    optimizer.zero_grad()
