import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")
model = torch.nn.Linear(4, 4)
critic = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
model, loader, optimizer = accelerator.prepare(model, optimizer, loader)  # expect: P137 error
accelerator.prepare(critic)  # expect: P137 warning
