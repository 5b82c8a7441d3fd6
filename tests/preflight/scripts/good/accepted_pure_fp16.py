import torch
from torch import nn

model = nn.Linear(4, 4).cuda().half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
