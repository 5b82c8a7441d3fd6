import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(4):
    if os.environ["RANK"] == "1" and step == 2:
        os._exit(0)
    dist.all_reduce(torch.ones(3))
    print("step", step, flush=True)
