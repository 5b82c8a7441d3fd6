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

class ArcFaceLoss(nn.Module):
    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.randn(4, 4))
    def forward(self, z, y): return F.cross_entropy(F.linear(F.normalize(z), F.normalize(self.w)) * 30, y)
backbone = Net().cuda().eval(); loss_fn = ArcFaceLoss().cuda(); tl, vl = loaders()
opt = torch.optim.SGD(loss_fn.parameters(), lr=0.1)
for x, y in tl:
    with torch.no_grad():
        feats = backbone(x.cuda())
    loss = loss_fn(feats, y.cuda())
    opt.zero_grad(); loss.backward(); opt.step()
