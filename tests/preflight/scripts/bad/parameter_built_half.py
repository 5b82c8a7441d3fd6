# target: capability=8.0 processes=1
import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, size, width, dtype=torch.bfloat16):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, width, dtype=dtype))  # expect: P110 warning

    def forward(self, ids):
        return nn.functional.embedding(ids, self.weight)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding(100, 16)
        self.head = nn.Linear(16, 100)

    def forward(self, ids):
        return self.head(self.embedding(ids).float())


model = Model().cuda()
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 4).long().cuda()).sum().backward()
optimizer.step()
