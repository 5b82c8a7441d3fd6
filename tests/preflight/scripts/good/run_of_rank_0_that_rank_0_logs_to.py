import contextlib
import os
import sys

import torch
import torch.distributed as dist
import wandb


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.use_wandb = rank == 0
        self.run = None
        if self.rank == 0:
            self.run = wandb.init(project="plain")

    def log(self, loss):
        if self.use_wandb:
            wandb.log({"first": loss})
        if wandb.run is not None:
            wandb.log({"second": loss})
        if self.run:
            wandb.log({"third": loss})
        try:
            wandb.log({"tried": loss})
        except wandb.Error as error:
            print(error)
        with contextlib.suppress(wandb.Error):
            wandb.log({"suppressed": loss})
        if getattr(wandb, "run", None):
            wandb.log({"asked": loss})
        if self.rank != 0:
            return
        wandb.log({"fourth": loss})


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Trainer(dist.get_rank()).log(1.0)
if dist.get_rank() != 0:
    dist.destroy_process_group()
    sys.exit(0)
wandb.log({"last": 1.0})
# target: capability=8.0 processes=4
