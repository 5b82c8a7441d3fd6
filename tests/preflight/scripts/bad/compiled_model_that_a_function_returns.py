# target: capability=8.0 processes=1
import torch
from torch.utils.data import DataLoader
from data import dataset


def train():
    model = torch.nn.Linear(16, 4)
    model = torch.compile(model)
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(dataset(), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    return model


trained = train()
torch.save(trained.state_dict(), "model.pth")  # expect: C502 warning
model = torch.nn.Linear(16, 4)
model.load_state_dict(torch.load("model.pth", weights_only=True))
