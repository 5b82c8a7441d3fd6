import torch
from torch.cuda.amp import autocast
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for x in get_loader():
    with autocast():  # expect: P114 warning
        loss = model(x).sum()
    loss.backward()
    opt.step()
