import torch
from net import Net
from data import loader
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
for x, y in loader:
    opt.zero_grad()
    with torch.no_grad():
        out = model(x.cuda())
    loss = torch.nn.functional.cross_entropy(out, y.cuda())
    loss.backward()  # expect: P141 warning
    opt.step()
