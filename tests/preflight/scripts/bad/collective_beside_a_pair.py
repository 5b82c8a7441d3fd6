import contextlib
import functools
import os

import torch
import torch.distributed as dist


@contextlib.contextmanager
def first_of_all(rank):
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def on_first(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if int(os.environ.get("RANK", "0")) == 0:
            return function(*args, **kwargs)
        return None

    return wrapper


@on_first
def report(value):
    dist.reduce(value, 0)  # expect: R404 warning
    print(value)


dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
with first_of_all(rank):
    data = torch.randn(64, 4)
report(model(data.cuda()).mean())
if rank == 0:
    dist.broadcast(data, 0)  # expect: R404 warning, D210 error
