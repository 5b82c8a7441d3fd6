import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)


def save(model):
    torch.save(model.module.half().state_dict(), "head.pt")  # expect: P111 error, R405 warning


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Head().cuda())
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
    save(model)
