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

student = Net().cuda(); opt = torch.optim.SGD(student.parameters(), lr=0.1); tl, vl = loaders()
student.teacher = Net().cuda().eval().requires_grad_(False)
for x, y in tl:
    loss = F.mse_loss(student(x.cuda()), student.teacher(x.cuda())); opt.zero_grad(); loss.backward(); opt.step()
