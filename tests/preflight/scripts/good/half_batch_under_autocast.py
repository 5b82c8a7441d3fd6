import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.l = nn.Linear(4, 1)
    def forward(self, x): return self.l(x)
class Casting(nn.Module):
    def __init__(self):
        super().__init__(); self.l = nn.Linear(4, 1)
    def forward(self, x): return self.l(x)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8)
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    with torch.autocast('cuda', dtype=torch.bfloat16):
        out = model(x.cuda().bfloat16())
    loss = out.float().mean(); opt.zero_grad(); loss.backward(); opt.step()
