# target: capability=7.5
"""accelerator.unscale_gradients() takes the scale out before torch's own clipping."""
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(mixed_precision="fp16")
model = nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for step in range(100):
    accelerator.backward(model(torch.randn(4, 8, device=accelerator.device)).mean())
    accelerator.unscale_gradients()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
