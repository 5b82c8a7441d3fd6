# target: capability=8.0 processes=4
import os

import torch
from torch import distributed as dist


def is_worker() -> bool:
    if dist.get_rank() == 0:
        return False
    return True


def is_leader() -> bool:
    if dist.get_rank() == 0:
        return True
    return False


def is_first() -> bool:
    if not dist.is_initialized() or dist.get_rank() == 0:
        return True
    return False


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if not is_worker():
    dist.barrier()  # expect: R404 error
if is_leader():
    dist.all_reduce(torch.ones(1).cuda())  # expect: R404 error
if is_first() and len(os.environ) > 8:
    dist.barrier()  # expect: R404 error
