# target: capability=8.0 processes=4
"""The group is made in one function, the model put on "the" GPU in another."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def setup():
    dist.init_process_group("nccl")  # expect: D205 error


def main():
    setup()
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        model(torch.zeros(4).cuda()).sum().backward()
        optimizer.step()


main()
