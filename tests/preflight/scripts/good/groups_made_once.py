# target: processes=4 capability=8.0
import os

import torch
import torch.distributed as dist

_GROUP = None


def make_groups(size):
    global _GROUP
    assert _GROUP is None
    for first in range(dist.get_world_size() // size):
        group = dist.new_group(range(first * size, (first + 1) * size))
        if first == dist.get_rank() // size:
            _GROUP = group


def build():
    if _GROUP is None:
        make_groups(2)
    return torch.nn.Linear(4, 4)


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
make_groups(2)
model = build()
if dist.get_rank() == 0:
    whole = build()
