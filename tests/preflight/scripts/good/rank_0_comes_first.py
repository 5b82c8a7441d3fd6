import contextlib
import os

import torch
import torch.distributed as dist


@contextlib.contextmanager
def rank_0_first(rank):
    if rank not in (-1, 0):
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
with rank_0_first(rank):
    print("loads the data")
dist.barrier()
if rank == 0:
    objects = [1]
    dist.broadcast_object_list(objects)
else:
    objects = [None]
    dist.broadcast_object_list(objects)
