# target: capability=8.0 processes=4
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Images

accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if Path("last.pt").exists():
    model.load_state_dict(torch.load("last.pt", map_location="cpu"))
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Images(), shuffle=True))
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
    optimizer.step()
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), "last.pt")
