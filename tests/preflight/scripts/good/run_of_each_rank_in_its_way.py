import os

import torch
import torch.distributed as dist
import wandb

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if dist.get_rank() == 0:
    wandb.init(project="plain")
else:
    wandb.init(mode="disabled")
wandb.log({"loss": 1.0})
# target: capability=8.0 processes=4
