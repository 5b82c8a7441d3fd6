import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(10):
    model(step).sum().backward()
    optimizer.step()
    for p in model.parameters():
        p.data = p.data.to(torch.bfloat16)  # expect: P112 error
