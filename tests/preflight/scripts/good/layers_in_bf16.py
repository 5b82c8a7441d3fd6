"""bf16 needs no scaler, so layers that are built in it stop nothing."""
# target: capability=8.0 processes=2

import torch
from accelerate import Accelerator


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
        self.head = torch.nn.Linear(4, 4)


accelerator = Accelerator(mixed_precision="bf16")
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    optimizer.step()
