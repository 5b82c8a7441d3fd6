# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Pairs

STEPS = 4
accelerator = Accelerator(gradient_accumulation_steps=STEPS)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Pairs(), shuffle=True))
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(batch).sum() / 8  # the width
        accelerator.backward(loss)
        accelerator.print((loss / STEPS).item())
        optimizer.step()
        optimizer.zero_grad()
