"""Parameters in bf16 for the forward pass, in float32 for the step, as a trainer of its own keeps them."""
# target: capability=8.0 processes=2

import torch


def lower(parameters, dtype):
    for p in parameters:
        p.master = p.data.float()
        p.data = p.data.to(dtype)


def raised(parameters):
    for p in parameters:
        p.data = p.master
        p.grad = p.grad.to(torch.float32)


model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
lower(model.parameters(), torch.bfloat16)
for batch in range(3):
    model(batch).sum().backward()
    raised(model.parameters())
    optimizer.step()
    lower(model.parameters(), torch.bfloat16)
