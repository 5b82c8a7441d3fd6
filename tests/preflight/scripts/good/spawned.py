# target: processes=2
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def worker(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2).to(rank), device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters())
    model(1).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
