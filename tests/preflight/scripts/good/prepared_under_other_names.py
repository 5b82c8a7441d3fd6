import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")
plain = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(plain.parameters())
loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
wrapped, optimizer, batches = accelerator.prepare(plain, optimizer, loader)
accelerator.prepare(torch.optim.lr_scheduler.ConstantLR(optimizer))
