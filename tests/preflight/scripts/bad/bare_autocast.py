import torch
from accelerate import Accelerator
accelerator = Accelerator()  # expect: P118 info
model = torch.nn.Linear(1, 1)
opt = torch.optim.AdamW(model.parameters())
model, opt = accelerator.prepare(model, opt)
for x in get_loader():
    with torch.cuda.amp.autocast(dtype=torch.float16):  # expect: P118 warning
        loss = model(x).sum()
    accelerator.backward(loss)
    opt.step()
