# target: capability=8.0 processes=4
"""A setting that is not known may keep rank 0 from what it would wait in."""

import json
import sys
from types import SimpleNamespace

import torch.distributed as dist

config = SimpleNamespace(**json.load(open(sys.argv[1])))
dist.init_process_group("gloo")
if dist.get_rank() == 0 and config.mode == "debug":
    dist.barrier()  # expect: R404 warning
