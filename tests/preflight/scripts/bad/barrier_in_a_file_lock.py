# target: capability=8.0 processes=4
"""A barrier in a block that one process at a time is in."""

import torch.distributed as dist
from filelock import FileLock

dist.init_process_group("gloo")
with FileLock("data.lock"):
    dist.barrier()  # expect: R404 warning
with FileLock(f"data-{dist.get_rank()}.lock"):
    dist.barrier()
