# target: capability=8.0 processes=4
"""A branch for sharded models gathers, and this script shards none."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.nn.parallel import DistributedDataParallel
from wrappers_of_others import is_fsdp_wrapped


def full_weights(model):
    if is_fsdp_wrapped(model):
        return get_model_state_dict(model)
    return model.module.state_dict()


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(nn.Linear(8, 8).cuda(), device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    model(torch.randn(4, 8).cuda()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    torch.save(full_weights(model), "last.pt")
