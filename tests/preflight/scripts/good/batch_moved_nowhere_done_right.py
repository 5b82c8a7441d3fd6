import torch
from net import Net
from data import loader
device = torch.device("cuda")
model = Net().to(device)
opt = torch.optim.Adam(model.parameters())
for x, y in loader:
    x = x.to(device)
    y = y.to(device)
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
