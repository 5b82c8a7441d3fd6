import torch
from net import Net
from data import loader
model = Net().cuda()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        p = model(x.cuda())
        loss = torch.nn.functional.binary_cross_entropy_with_logits(p, y.cuda())
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
