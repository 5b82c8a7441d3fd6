# target: capability=8.0 processes=4 args=
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def make_model(rank):
    return DistributedDataParallel(torch.nn.Linear(8, 1).cuda(rank), device_ids=[rank])


def start(rank):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")


def main():
    rank = int(os.environ["LOCAL_RANK"])
    start(rank)
    model = make_model(rank)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 8).cuda(rank)).sum().backward()
    opt.step()
    dist.destroy_process_group()


main()
