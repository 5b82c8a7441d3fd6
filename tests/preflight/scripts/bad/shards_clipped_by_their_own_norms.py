import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.utils import clip_grad_norm_

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FSDP(torch.nn.Linear(4, 4), use_orig_params=True)
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(3):
    model(batch).sum().backward()
    clip_grad_norm_(model.parameters(), 1.0)  # expect: R409 warning
    optimizer.step()
    optimizer.zero_grad()
# target: capability=8.0 processes=4
