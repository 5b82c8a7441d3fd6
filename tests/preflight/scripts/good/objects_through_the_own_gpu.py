# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = torch.device(f"cuda:{local_rank}")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).to(device), device_ids=[local_rank])
loss = model(torch.ones(4, 8, device=device)).sum()
loss.backward()
parts = [None] * dist.get_world_size()
dist.all_gather_object(parts, {"loss": loss.item()})
