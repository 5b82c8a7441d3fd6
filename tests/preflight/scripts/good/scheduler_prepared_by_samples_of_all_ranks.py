# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR, LambdaLR, LinearLR, OneCycleLR
from transformers import get_scheduler, get_linear_schedule_with_warmup
from data import dataset

accelerator = Accelerator()
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters())
MAX = 100000
scheduler = CosineAnnealingLR(optimizer, MAX)
loader = DataLoader(dataset(), batch_size=1, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
seen = 0
while seen < MAX:
    for x, y in loader:
        accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        seen += accelerator.num_processes
