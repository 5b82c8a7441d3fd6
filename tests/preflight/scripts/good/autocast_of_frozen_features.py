# target: processes=1 capability=8.0
import contextlib

import torch


class Features(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    @torch.autocast("cuda")
    def forward(self, x):
        return self.layer(x)


features, head = Features(), torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(head.parameters(), 0.1)
for _ in range(10):
    with torch.no_grad():
        x = features(torch.ones(4, 4))
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        x = x + features(torch.ones(4, 4))
    head(x.float()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
