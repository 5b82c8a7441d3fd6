import os

import torch
from torch import nn


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Linear(8, 8).to("cuda:0")
        self.high = nn.Linear(8, 1).to("cuda:1")

    def forward(self, x):
        return self.high(self.low(x.to("cuda:0")).to("cuda:1"))


if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    raise SystemExit("one process has both GPUs")
model = Halves()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(4, 8)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
