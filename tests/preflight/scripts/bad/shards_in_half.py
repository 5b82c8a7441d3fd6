# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
first = FullyShardedDataParallel(torch.nn.Linear(4, 4).half())  # expect: P102 error
second = torch.nn.Linear(4, 4).to("cuda", torch.float16)  # expect: P102 error
fully_shard(second)
for model in (first, second):
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 4).cuda().half()).sum().backward()
    optimizer.step()
