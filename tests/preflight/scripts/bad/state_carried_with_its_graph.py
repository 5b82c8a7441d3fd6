import torch
from net import RNN
from data import loader
model = RNN(128).cuda()
opt = torch.optim.Adam(model.parameters())
h = torch.zeros(1, 32, 128).cuda()
for x, y in loader:
    out, h = model(x.cuda(), h)
    loss = torch.nn.functional.cross_entropy(out, y.cuda())
    opt.zero_grad()
    loss.backward(retain_graph=True)  # expect: P140 warning
    opt.step()
