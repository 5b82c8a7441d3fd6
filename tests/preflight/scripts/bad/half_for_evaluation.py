import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())


def evaluate(m):
    m.half()  # expect: P111 error
    return m(1)


for epoch in range(3):
    for batch in range(10):
        model(batch).sum().backward()
        optimizer.step()
    evaluate(model)
