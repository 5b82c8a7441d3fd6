# target: capability=8.0
"""The groups of an optimizer hold the parameters that it steps."""
import torch


class Training:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters())

    def _round(self, dtype):
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-3
            for p in group["params"]:
                p.data = p.data.to(dtype)  # expect: P112 error

    def halve(self):
        self._round(torch.float16)

    def step(self, x):
        self.net(x).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


training = Training(torch.nn.Linear(3, 3).cuda())
for _ in range(9):
    training.step(torch.randn(2, 3).cuda())
    training.halve()
