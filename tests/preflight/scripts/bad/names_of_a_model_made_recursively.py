# target: capability=8.0 processes=1
import torch
from torch.utils.data import DataLoader
from data import dataset


def build(depth):
    if depth:
        return build(depth - 1)
    return torch.nn.Linear(16, 4)


net = build(3).cuda()
model = torch.compile(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset(), batch_size=32, shuffle=True):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pth")  # expect: C502 warning
other = torch.nn.Linear(16, 4)
other.load_state_dict(torch.load("model.pth", weights_only=True))
plain = build(2)
torch.save(plain.state_dict(), "plain.pth")
