# target: capability=8.0 processes=4
import os

import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.ones(64, 8), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
rest = loader
if os.path.exists("state"):
    accelerator.load_state("state")
    rest = accelerator.skip_first_batches(loader, 7)
for epoch in range(4):
    for batch in rest:
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()
    rest = loader
accelerator.save_state("state")
