import copy

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, batch):
        return self.layer(batch)


class Average:
    def __init__(self, model):
        self.shadow = copy.deepcopy(model).half()

    @torch.no_grad()
    def update(self, model):
        for mean, parameter in zip(self.shadow.parameters(), model.parameters(), strict=True):
            mean.mul_(0.999).add_(parameter.data, alpha=0.001)  # expect: P113 warning


model = Net().cuda()
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(10):
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    average.update(model)
