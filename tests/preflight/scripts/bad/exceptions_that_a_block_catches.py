# target: capability=8.0 processes=4
"""What rank 0 raises leaves the block that catches it, and what follows the block is read."""
import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Stale(Exception):
    pass


def check(rank):
    if rank == 0 and not os.path.exists("index"):
        raise Stale("index")  # expect: R404 warning


def prepare(rank):
    try:
        check(rank)
        dist.barrier()
    except Stale as error:
        print(error)
    with contextlib.suppress(Stale):
        if rank == 0:
            raise Stale("cache")  # expect: R404 warning
        dist.barrier()
    with contextlib.suppress(Stale, OSError):
        raise Stale("always")


def train(rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 2).to("cuda:0"))  # expect: D201 error
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(10):
        try:
            model(torch.randn(2, 2).cuda()).sum().backward()
            optimizer.step()
            dist.barrier()
            if rank == 0 and os.path.exists("stop"):
                raise Stale("turn")
        except Stale:
            continue


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    prepare(dist.get_rank())
    train(dist.get_rank())


if __name__ == "__main__":
    try:
        main()
    except RuntimeError:
        print("failed")
