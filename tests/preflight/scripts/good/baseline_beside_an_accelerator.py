# target: capability=8.0 processes=1
"""The baseline has an autocast and a loop of its own: no Accelerator takes part in it."""

import torch
from accelerate import Accelerator


def baseline(model):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.ones(4, 4, device="cuda")).mean()
        loss.backward()
        optimizer.step()


def accelerated(model):
    accelerator = Accelerator()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for _ in range(4):
        accelerator.backward(model(torch.ones(4, 4, device=accelerator.device)).mean())
        optimizer.step()


baseline(torch.nn.Linear(4, 4).cuda())
accelerated(torch.nn.Linear(4, 4))
