# target: capability=8.0 processes=1
"""All layers have one half dtype: some name it, and the others take it from a configuration."""
import sys

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width, dtype=torch.bfloat16):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype))

    def forward(self, x):
        return x * self.weight


class Net(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.first = nn.Linear(4, 4, dtype=dtype)
        self.norm = Norm(4)

    def forward(self, x):
        return self.norm(self.first(x))


net = Net(getattr(torch, sys.argv[1])).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for batch in torch.utils.data.DataLoader(range(9)):
    net(batch.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
