import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    with torch.autocast("cuda"):  # expect: P114 warning
        loss = model(step).sum()
    loss.backward()
    optimizer.step()
