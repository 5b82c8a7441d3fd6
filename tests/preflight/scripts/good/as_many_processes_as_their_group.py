# target: capability=8.0 processes=2
import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(rank), device_ids=[rank])
    for _ in range(9):
        model(torch.randn(2, 4).to(rank)).sum().backward()
    dist.destroy_process_group()


def group_of_an_option(rank, options):
    dist.init_process_group("nccl", rank=rank, world_size=options.world_size)


def group_of_the_environment(rank):
    dist.init_process_group("nccl")


def no_group(rank, world_size):
    print(rank, world_size)


def settings():
    return {"nprocs": torch.cuda.device_count()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world_size", type=int, default=2)
    options = parser.parse_args()
    mp.spawn(work, args=(2,), nprocs=2)
    mp.spawn(work, (2,), 2)
    mp.spawn(work, args=(1,))
    mp.spawn(work, args=(2,), **settings())
    mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count(), join=True)
    mp.spawn(group_of_an_option, args=(options,))
    mp.spawn(group_of_the_environment)
    mp.spawn(no_group, args=(4,))
