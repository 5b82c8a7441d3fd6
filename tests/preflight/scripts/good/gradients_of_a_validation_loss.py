import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

class Net(nn.Module):
    def __init__(self, n=8, m=4):
        super().__init__()
        self.body = nn.Linear(n, 16)
        self.fc = nn.Linear(16, m)
    def forward(self, x):
        return self.fc(F.relu(self.body(x)))

def loaders():
    ds = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
    return DataLoader(ds, batch_size=8, shuffle=True), DataLoader(ds, batch_size=8)

def train_epoch(model, loader, opt, device):
    model.train()
    for x, y in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        opt.step()

def influence(model, test_loader, device):
    losses = []
    for x, y in test_loader:
        losses.append(F.cross_entropy(model(x.to(device)), y.to(device)))
    return torch.autograd.grad(torch.stack(losses).mean(), list(model.parameters()))
model = Net().cuda(); tl, vl = loaders()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
train_epoch(model, tl, opt, "cuda")
print(influence(model, vl, "cuda")[0].norm())
