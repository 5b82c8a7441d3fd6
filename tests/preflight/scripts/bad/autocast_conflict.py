import torch
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")  # expect: P118 info, P122 info, P131 info
model = torch.nn.Linear(1, 1)
opt = torch.optim.AdamW(model.parameters())
model, opt = accelerator.prepare(model, opt)
for x in get_loader():
    with torch.autocast("cuda", dtype=torch.float16):  # expect: P118 warning
        loss = model(x).sum()
    accelerator.backward(loss)
    opt.step()
