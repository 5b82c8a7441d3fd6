# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel


class Run:
    def __init__(self):
        self.model = FullyShardedDataParallel(
            torch.nn.Linear(8, 1),
            device_id=torch.cuda.current_device(),
            use_orig_params=True,
        )
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def fit(self, batches):
        for x in batches:
            x = x.cuda()
            self.model(input=x).sum().backward()
            self.opt.step()
            self.opt.zero_grad()


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
Run().fit(torch.randn(16, 4, 8))
