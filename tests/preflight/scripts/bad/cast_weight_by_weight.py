import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).cuda()
for module in model.modules():
    if isinstance(module, nn.Linear):
        module.weight.data = module.weight.data.half()  # expect: P102 warning
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 4).cuda()).sum().backward()
optimizer.step()
