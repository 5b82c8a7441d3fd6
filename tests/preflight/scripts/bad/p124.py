import torch
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for x in get_loader():
    loss = model(x).sum()
    loss.backward()  # expect: P124 error
    optimizer.step()
