import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
model, loader = accelerator.prepare(model, loader)
for batch in loader:
    accelerator.backward(model(batch).sum())
    optimizer.step()  # expect: P129 error
    optimizer.zero_grad()
