# target: capability=8.0 processes=4
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import random_split
from torchvision.datasets import MNIST


def work(rank, train):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=4)
    if rank == 0:
        MNIST("more", download=True)
    dist.barrier()
    MNIST("more", download=True)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(rank))
    model(torch.zeros(2, 4, device=rank)).sum().backward()


if __name__ == "__main__":
    data = MNIST("data", download=True)
    train, val = random_split(data, [50000, 10000])
    mp.spawn(work, nprocs=4, args=(train,))
