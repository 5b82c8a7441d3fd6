import torch
from accelerate import Accelerator
acc = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(1, 1)
opt = torch.optim.AdamW(model.parameters())
model, opt = acc.prepare(model, opt)
scaler = torch.amp.GradScaler("cuda")  # expect: P115 error
for x in get_loader():
    loss = model(x).sum()
    acc.backward(scaler.scale(loss))  # expect: P115 info
    opt.step()
    scaler.update()
