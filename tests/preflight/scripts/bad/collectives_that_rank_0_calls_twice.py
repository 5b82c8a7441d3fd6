# target: capability=8.0 processes=4
"""Each rank calls the function in a branch of its own; what rank 0 alone reaches in it has no counterpart."""
import os

import torch
import torch.distributed as dist


def train(rank, loss, writer):
    dist.all_reduce(loss)
    if rank == 0:
        dist.reduce(loss, 0)  # expect: R404 error
        writer.write(str(loss))


def summed(loss, group=None):
    group = group or dist.group.WORLD
    dist.all_reduce(loss, group=group)  # expect: R404 error
    return loss


dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
loss = torch.zeros(1).cuda()
if rank == 0:
    train(rank, loss, open("log.txt", "a"))
else:
    train(rank, loss, None)
if rank == 0:
    print(summed(loss))
