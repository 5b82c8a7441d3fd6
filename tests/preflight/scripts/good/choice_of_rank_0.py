"""A choice in an expression, or a folder of this process, keeps the ranks apart as a branch does."""

import os
import tempfile
from uuid import uuid4

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
torch.save(model.module.state_dict(), "model.pt") if rank == 0 else None
None if rank else torch.save(model.module.state_dict(), "last.pt")
torch.save(torch.cuda.get_rng_state(), os.path.join(tempfile.mkdtemp(), "state.pt"))
torch.save(torch.cuda.get_rng_state(), f"{uuid4().hex}.pt")
