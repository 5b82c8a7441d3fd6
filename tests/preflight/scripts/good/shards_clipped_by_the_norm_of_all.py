import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FSDP(torch.nn.Linear(4, 4), use_orig_params=True)
whole = FSDP(torch.nn.Linear(4, 4), use_orig_params=True, sharding_strategy=ShardingStrategy.NO_SHARD)
either = (
    FSDP(torch.nn.Linear(4, 4))
    if os.environ.get("SHARD")
    else DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
)
optimizer = torch.optim.AdamW([*model.parameters(), *whole.parameters()])
for batch in range(3):
    (model(batch) + whole(batch)).sum().backward()
    if hasattr(model, "clip_grad_norm_"):
        model.clip_grad_norm_(1.0)
    else:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(either.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
# target: capability=8.0 processes=4
