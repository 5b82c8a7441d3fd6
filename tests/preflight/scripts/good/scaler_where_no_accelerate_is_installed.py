# target: capability=8.0
"""A class that was imported is there: what is made without it is not made."""
import torch

try:
    from accelerate import Accelerator
except ImportError:
    Accelerator = None

accelerator = Accelerator(mixed_precision="fp16") if Accelerator else None
scaler = None if accelerator else torch.amp.GradScaler("cuda")
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
if accelerator:
    net, optimizer = accelerator.prepare(net, optimizer)
for _ in range(9):
    loss = net(torch.ones(2, 2)).sum()
    if accelerator:
        accelerator.backward(loss)
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
