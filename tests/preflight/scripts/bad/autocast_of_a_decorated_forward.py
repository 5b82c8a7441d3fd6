# target: processes=4 capability=8.0
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    @torch.autocast("cuda", dtype=torch.float16)  # expect: P114 warning
    def forward(self, x):
        return self.layer(x)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    net(torch.ones(4, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
