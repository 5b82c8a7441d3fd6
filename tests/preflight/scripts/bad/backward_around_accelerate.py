# target: launch=fp16
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator()
model = nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    loss = model(batch).sum()
    loss.backward()  # expect: P124 error
    optimizer.step()
