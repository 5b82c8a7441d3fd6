# target: processes=2 launch=fp16
import torch
from accelerate import Accelerator
from somewhere import build_model, configure

accelerator = Accelerator()
model = build_model(dtype=torch.float16)
model = configure(model)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    accelerator.backward(model(batch).sum())
    optimizer.step()
