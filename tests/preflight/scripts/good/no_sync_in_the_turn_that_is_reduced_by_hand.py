# target: capability=8.0 processes=4
"""What hooks of the backward() would miss is reduced behind it, in the turn that is stepped."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(gradient_accumulation_steps=4)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for x, y in data:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), y)
        if accelerator.num_processes > 1 and accelerator.sync_gradients:
            with accelerator.no_sync(model):
                accelerator.backward(loss)
            for p in model.parameters():
                if p.grad is not None:
                    torch.distributed.all_reduce(p.grad, op=torch.distributed.ReduceOp.AVG)
        else:
            accelerator.backward(loss)
        if accelerator.sync_gradients:
            optimizer.step()
            optimizer.zero_grad()
