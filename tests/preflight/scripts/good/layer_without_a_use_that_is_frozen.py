# target: capability=8.0 processes=2
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.old_head = nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x)


torch.distributed.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
net = Net().cuda()
for name, weight in net.named_parameters():
    if not name.startswith("body"):
        weight.requires_grad = False
model = DistributedDataParallel(net, device_ids=[local_rank])
for _ in range(9):
    model(torch.randn(2, 4, device="cuda")).sum().backward()
