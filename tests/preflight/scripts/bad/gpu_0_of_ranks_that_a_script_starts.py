# target: capability=8.0
"""Ranks that a script starts itself, where the launch is of one process and its size is not known."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def spawned(rank, world):
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=world)
    print(torch.zeros(1).cuda())  # expect: D202 warning
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(rank), device_ids=[rank])
    batch = torch.zeros(4, 4).cuda(0)  # expect: D201 warning
    model(batch).sum().backward()


class Worker(mp.Process):
    def __init__(self, rank):
        super().__init__(target=self.work)
        self.rank = rank

    def run(self):
        torch.cuda.set_device(0)  # expect: D201 warning
        dist.init_process_group("nccl", rank=self.rank, world_size=4)


def counted(rank, world):
    device = torch.device("cuda:0")  # expect: D201 warning
    dist.init_process_group("nccl", rank=rank, world_size=world)
    print(torch.ones(2).to(device))


def helper(queue):
    queue.put(torch.ones(2).to("cuda:0"))  # one process, which is no rank


if __name__ == "__main__":
    torch.zeros(1).cuda()  # of the process that starts the ranks
    world = torch.cuda.device_count()
    mp.spawn(spawned, args=(world,), nprocs=world)
    workers = [Worker(rank) for rank in range(4)]
    for worker in workers:
        worker.start()
    for rank in range(world):
        process = mp.Process(target=counted, args=(rank, world))
        process.start()
    mp.Process(target=helper, args=(mp.Queue(),)).start()
