# target: capability=8.0 processes=2
import deepspeed
import torch
from accelerate import Accelerator


def baseline():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in range(4):
        model(batch).backward()
        optimizer.step()


def integration():
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    for batch in range(4):
        accelerator.backward(model(batch))
        optimizer.step()


def engine():
    accelerator = Accelerator()
    model, optimizer, data = accelerator.prepare(torch.nn.Linear(4, 4), None, range(4))
    model, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer)
    for batch in data:
        model.backward(model(batch))
        model.step()


for zero in (2, 3):
    baseline()
    engine()
    integration()
