import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).cuda()
model[0].half()  # expect: P102 error
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 4).cuda()).sum().backward()
optimizer.step()
