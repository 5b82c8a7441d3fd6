# target: launch=fp16
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator()
model = nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
    optimizer.step()
