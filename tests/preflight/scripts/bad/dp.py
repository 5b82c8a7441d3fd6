import torch
from torch import nn
model = nn.Linear(1, 1)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)  # expect: D206 warning
model.cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
opt.step()
