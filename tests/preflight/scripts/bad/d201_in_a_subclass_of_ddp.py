# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist


class Wrapped(torch.nn.parallel.DistributedDataParallel):
    def __init__(self, model, device=0):  # expect: D201 error
        super().__init__(model, device_ids=[device])


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Wrapped(torch.nn.Linear(4, 4).cuda())
