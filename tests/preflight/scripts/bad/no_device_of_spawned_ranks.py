# target: capability=8.0
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    dist.init_process_group("nccl", rank=rank, world_size=2)  # expect: D205 warning
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model(torch.zeros(4, 4).cuda()).sum().backward()


mp.spawn(work, nprocs=2)  # expect: D211 error
