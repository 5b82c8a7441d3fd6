"""A hook of the model casts what it gets."""

import torch

model = torch.nn.Linear(8, 2).cuda()
model.register_forward_pre_hook(lambda _model, given: tuple(each.float() for each in given))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 8).cuda().half()).float().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
