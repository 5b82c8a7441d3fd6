import torch
from net import Net
from data import loader
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
for x, y in loader:
    opt.zero_grad()
    out = model(x.cuda())
    loss = torch.nn.functional.cross_entropy(out, y.cuda())
    loss.backward()
    opt.step()
