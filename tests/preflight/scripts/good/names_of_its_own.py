"""Attributes whose names reading has for other things, an option that launchers pass, a group of one process."""
# target: capability=8.0 processes=4

import argparse
import os

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--rank", "--local_rank", type=int, default=0)
options = parser.parse_args()
torch.cuda.set_device(options.rank)
os.environ["WORLD_SIZE"] = str(torch.distributed.get_world_size())
try:
    torch.distributed.init_process_group("nccl")
except ValueError:
    os.environ["RANK"] = "0"


class Net(torch.nn.Module):
    def __init__(self, accelerator):
        super().__init__()
        self.dtype = torch.float16
        self.mixed = torch.bfloat16
        self.device_map = "auto"
        self.accelerator = accelerator
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, batch):
        return self.layer(batch.to(self.dtype).float())


model = Net(Accelerator(mixed_precision="bf16")).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in range(3):
    model(batch).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
