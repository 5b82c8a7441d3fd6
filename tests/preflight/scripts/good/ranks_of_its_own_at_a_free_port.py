import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port():
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def run(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        model(torch.ones(4, 4).to(rank)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    mp.spawn(run, args=(gpus, free_port()), nprocs=gpus)
