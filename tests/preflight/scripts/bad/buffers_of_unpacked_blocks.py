import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x):
        return x + self.body(x)


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(8) for _ in range(depth)])

    def forward(self, x):
        return self.blocks(x).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--depth", type=int, required=True)
args = parser.parse_args()
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
net = DistributedDataParallel(Net(args.depth).cuda(gpu), device_ids=[gpu])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    net(torch.randn(4, 8, 4, 4).cuda(gpu)).backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(net(torch.ones(1, 8, 4, 4).cuda(gpu)).item())  # expect: R404 warning
    dist.barrier()
