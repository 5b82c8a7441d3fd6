# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Images

accelerator = Accelerator(gradient_accumulation_steps=1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Images(), shuffle=True))
for x, y in loader:
    with accelerator.accumulate(model):
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.step()
