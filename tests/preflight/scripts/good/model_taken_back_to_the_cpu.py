"""The model trains on a GPU, and is then used on the CPU."""

import torch

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(4, 8)]
for x in batches:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
model.cpu()
for x in batches:
    print(model(x))
