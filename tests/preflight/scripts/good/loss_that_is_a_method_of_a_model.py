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

class Flow(nn.Module):
    def __init__(self): super().__init__(); self.net = nn.Linear(4, 4)
    def nll(self, z): return (self.net(z) ** 2).mean()
vae, flow = Net().cuda().eval(), Flow().cuda(); tl, vl = loaders()
opt = torch.optim.Adam(flow.parameters())
for x, y in tl:
    with torch.no_grad():
        z = vae(x.cuda())
    loss = flow.nll(z)
    opt.zero_grad(); loss.backward(); opt.step()
