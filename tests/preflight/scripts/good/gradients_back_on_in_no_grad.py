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

model = Net().cuda(); tl, vl = loaders(); opt = torch.optim.SGD(model.parameters(), lr=0.1); criterion = nn.CrossEntropyLoss()
for x, y in tl:
    with torch.no_grad():
        x = x.cuda().clamp(-1, 1)
        with torch.enable_grad():
            out = model(x)
            loss = criterion(out, y.cuda())
    opt.zero_grad(); loss.backward(); opt.step()
