# target: capability=8.0 processes=4
"""Numbers to print are put together, in the function that steps and in a meter; gradients are not."""

import os

import torch
import torch.distributed as dist
from torch import nn


class Meter:
    def __init__(self):
        self.held = 0.0

    def all_reduce(self, device):
        total = torch.tensor([self.held], device=device)
        dist.all_reduce(total)
        self.held = total.item()


def train(net, data, optimizer, device):
    meter = Meter()
    for p in net.parameters():
        p.requires_grad = True
    for x, y in data:
        out = net(x.to(device))
        loss = nn.functional.cross_entropy(out, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # expect: R406 warning
        spread = out.flatten().std()
        dist.all_reduce(spread)
    meter.all_reduce(device)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = nn.Linear(8, 2).cuda()
train(net, torch.load(f"part-{dist.get_rank()}.pt"), torch.optim.SGD(net.parameters(), lr=0.1), "cuda")
