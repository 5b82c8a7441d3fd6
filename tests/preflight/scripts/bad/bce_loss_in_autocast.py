import torch, torch.nn as nn
from data import loader

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
    def forward(self, x):
        return self.net(x)

model = Net().cuda()
criterion = nn.BCELoss()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in loader:
    opt.zero_grad()
    with torch.cuda.amp.autocast():
        loss = criterion(model(x.cuda()), y.cuda())  # expect: P143 error
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
