# target: capability=8.0 processes=4
"""A single dispatch calls the function of the kind of its first argument, and no other."""
from functools import singledispatch

import torch
from accelerate import Accelerator
from torch import nn


@singledispatch
def place(part, device):
    raise TypeError(type(part))


@place.register
def _(part: nn.Module, device):
    return part.to("cuda:0")  # expect: D201 error


@place.register(str)
def _(part, device):
    return torch.load(part).to("cuda:1")


def place_all(parts, device):
    return [place(part, device) for part in parts]


place.register(list, place_all)
accelerator = Accelerator()
model = place(nn.Linear(2, 2), accelerator.device)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(10):
    accelerator.backward(model(torch.randn(2, 2, device=accelerator.device)).sum())
    optimizer.step()
    optimizer.zero_grad()
