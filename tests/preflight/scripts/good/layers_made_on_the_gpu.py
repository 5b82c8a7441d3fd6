import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

class Net(nn.Module):
    def __init__(self, dev):
        super().__init__(); self.fc = nn.Linear(8, 4, device=dev)
    def forward(self, x): return self.fc(x)
net = Net("cuda"); opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(8, 8).cuda(); y = torch.randint(0, 4, (8,)).cuda()
for _ in range(10):
    loss = F.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
