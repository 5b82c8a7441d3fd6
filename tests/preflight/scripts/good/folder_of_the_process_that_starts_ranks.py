# target: capability=8.0 processes=4
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=4)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(rank))
    model(torch.zeros(2, 4, device=rank)).sum().backward()


if __name__ == "__main__":
    os.makedirs("runs")
    Path("logs").mkdir()
    mp.spawn(work, nprocs=4)
