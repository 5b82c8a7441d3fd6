# target: capability=8.0 args=
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def setup(rank, world, port=None):
    os.environ["MASTER_PORT"] = str(port or free_port())
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)


def work(rank, world, port):
    setup(rank, world, port)
    DDP(torch.nn.Linear(2, 2).cuda(), device_ids=[rank])


if __name__ == "__main__":
    mp.spawn(work, args=(2, free_port()), nprocs=2)
