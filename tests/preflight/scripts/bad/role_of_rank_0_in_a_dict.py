# target: capability=8.0 processes=4
"""What rank 0 alone finds in a dict by its rank, it alone calls."""

import torch
import torch.distributed as dist


def report(value):
    dist.all_reduce(value)  # expect: R404 error


def evaluate(value):
    dist.broadcast(value, 0)  # expect: R404 error


dist.init_process_group("gloo")
job = {0: report}.get(dist.get_rank())
if job is not None:
    job(torch.ones(1))
judge = {0: evaluate}.get(dist.get_rank(), lambda value: value)
judge(torch.ones(1))
