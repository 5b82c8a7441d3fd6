# target: capability=8.0 processes=4
"""A context sets the default dtype for its block alone, and a decorator makes the group of a function."""

import contextlib
import functools

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@contextlib.contextmanager
def made_in(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # expect: P102 error
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def grouped(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        dist.init_process_group("nccl")  # expect: D205 error
        return function(*args, **kwargs)

    return inner


@grouped
def main():
    with made_in(torch.float16):
        model = torch.nn.Linear(4, 4).cuda()
    head = torch.nn.Linear(4, 1).cuda()
    model = DistributedDataParallel(model)
    head = DistributedDataParallel(head)
    optimizer = torch.optim.AdamW(model.parameters())  # expect: P102 info
    own = torch.optim.AdamW(head.parameters())
    for _ in range(9):
        head(model(torch.ones(4, 4)).float()).sum().backward()
        optimizer.step()
        own.step()


main()
