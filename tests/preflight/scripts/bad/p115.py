import torch
from accelerate import Accelerator
acc = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(1, 1)
opt = torch.optim.AdamW(model.parameters())
model, opt = acc.prepare(model, opt)
scaler = torch.cuda.amp.GradScaler()  # expect: P115 error
for x in get_loader():
    with torch.cuda.amp.autocast():
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
