# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))


def fit(model, opt, batches):
    for x in batches:
        opt.zero_grad()
        model(x.cuda()).sum().backward()
        opt.step()


dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(rank)
batches = torch.randn(16, 4, 8)
net = Net().cuda()
model = DistributedDataParallel(net, device_ids=[rank], find_unused_parameters=True)
for p in net.body.parameters():
    p.requires_grad_(False)
fit(model, torch.optim.SGD(net.head.parameters(), lr=0.1), batches)
for p in net.parameters():
    p.requires_grad_(True)
fit(model, torch.optim.SGD(model.parameters(), lr=0.01), batches)
