import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)


model = Net().cuda()
model.head.weight.data = model.head.weight.data.half()  # expect: P102 error
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 4).cuda()).sum().backward()
optimizer.step()
