# target: capability=7.5 processes=4 launch=fp16
"""Launched ranks have LOCAL_RANK, packages are installed, and giving up is no training."""

import os

import torch
from accelerate import Accelerator

try:
    import flash_attn
except ImportError:
    flash_attn = None

try:
    local_rank = int(os.environ["LOCAL_RANK"])
except KeyError:
    local_rank = 0


def build(width):
    try:
        return torch.nn.Linear(width, width)
    except RuntimeError as error:
        print(error)
        return None


torch.cuda.set_device(local_rank)
accelerator = Accelerator()
model = build(2)
teacher = torch.nn.Linear(2, 2).to(f"cuda:{local_rank}")
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    try:
        accelerator.backward(model(batch).sum())
        optimizer.step()
    except KeyboardInterrupt:
        model.half()
        break
