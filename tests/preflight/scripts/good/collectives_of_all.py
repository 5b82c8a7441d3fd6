import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = FSDP(torch.nn.Linear(4, 4))
optimizer = torch.optim.AdamW(model.parameters())
first = dist.new_group([0])
weights = model.state_dict()
if rank == 0:
    torch.save(weights, "model.pt")
    dist.barrier(group=first)
    print(torch.cuda.memory_summary())
dist.barrier()
single = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[rank])
if rank == 0:
    torch.save(single.state_dict(), "single.pt")
