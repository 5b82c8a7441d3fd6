import torch
from net import Net
from data import loader
model = Net().cuda()
opt = torch.optim.Adam(model.parameters())
for x, y in loader:
    opt.zero_grad()
    out = model(x.cuda())
    l1 = torch.nn.functional.cross_entropy(out, y.cuda())
    l1.backward()
    opt.step()
