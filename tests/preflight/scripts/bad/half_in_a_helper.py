# target: capability=8.0 processes=1
import torch
from mylib import build


def lower(m):
    return m.half()  # expect: P102 warning


net = lower(build())
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for batch in range(10):
    net(batch).backward()
    optimizer.step()
