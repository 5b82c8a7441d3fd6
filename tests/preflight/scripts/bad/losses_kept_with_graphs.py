import torch
from net import Net
from data import loader
model = Net().cuda()
opt = torch.optim.Adam(model.parameters())
losses = []
for epoch in range(20):
    for x, y in loader:
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        losses.append(loss)  # expect: P139 warning
    print(sum(losses) / len(losses))
