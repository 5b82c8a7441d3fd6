# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR, LambdaLR, LinearLR, OneCycleLR
from transformers import get_scheduler, get_linear_schedule_with_warmup
from data import dataset

EPOCHS = 10
STEPS = 1000
accelerator = Accelerator()
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(dataset(), batch_size=32, shuffle=True)
steps_per_epoch = len(dataset()) // 32
scheduler = OneCycleLR(optimizer, 1e-3, epochs=EPOCHS, steps_per_epoch=steps_per_epoch)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(EPOCHS):
    for x, y in loader:
        accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
