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

class Encoder(nn.Module):
    def __init__(self): super().__init__(); self.body = nn.Linear(8, 4)
    def forward(self, x):
        z = self.body(x)
        return z if self.training else z.detach()
enc = Encoder().cuda(); tl, val_loader = loaders()
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
for x, y in tl:
    loss = F.cross_entropy(enc(x.cuda()), y.cuda()); opt.zero_grad(); loss.backward(); opt.step()
enc.eval(); bank = []
for x, _ in val_loader:
    bank.append(enc(x.cuda()))
print(torch.cat(bank).shape)
