import torch
from accelerate import Accelerator
from lightning.fabric import Fabric

accelerator = Accelerator(mixed_precision="bf16")
encoder = torch.nn.Linear(4, 4).requires_grad_(False)
accelerator.prepare(encoder)
accelerator.prepare_model(torch.nn.Linear(4, 4), evaluation_mode=True)

fabric = Fabric(precision="bf16-mixed")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
model, optimizer, schedule = fabric.setup(model, optimizer, scheduler=schedule)
