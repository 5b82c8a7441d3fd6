# target: capability=8.0 processes=4
"""`rank=True` asks for a loss by order: it is none of a rank."""

import torch
import torch.distributed as dist


def loss_of(scores, rank=None):
    loss = scores.sum()
    if rank:
        dist.all_reduce(loss.detach())
    return loss


dist.init_process_group("gloo")
loss_of(torch.ones(3), rank=True)
