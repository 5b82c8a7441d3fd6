import torch
from accelerate import Accelerator
acc = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(1, 1)
opt = torch.optim.AdamW(model.parameters())
model, opt = acc.prepare(model, opt)
for x in get_loader():
    acc.backward(model(x).sum())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
    opt.step()
