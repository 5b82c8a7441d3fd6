"""Each layer of the model is cast in its place."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).cuda()
for layer in model:
    layer.to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 8).cuda().to(torch.bfloat16)).float().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
