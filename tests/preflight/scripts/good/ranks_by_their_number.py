"""The branch of one GPU is the default, and a launch of ranks gives their number."""
# target: capability=8.0 processes=4

import argparse
import os

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("-g", "--gpus", type=int, default=1)
options = parser.parse_args()
several = options.gpus > 1
if several:
    rank = int(os.environ["LOCAL_RANK"])
    torch.distributed.init_process_group("nccl")
    device = torch.device("cuda", rank)
else:
    rank = 0
    device = 0
torch.cuda.set_device(device)
torch.nn.Linear(1, 1).to(device)


def choose(number):
    if torch.cuda.is_available() and number > 1:
        torch.distributed.init_process_group("nccl")
        return int(os.environ["LOCAL_RANK"])
    else:
        index = 0
    return index


torch.cuda.set_device(torch.device("cuda", choose(options.gpus)))

accelerator = Accelerator()
where = (
    {"": accelerator.device}
    if accelerator.distributed_type == "MULTI_GPU" or accelerator.distributed_type == "DEEPSPEED"
    else "auto"
)
model = AutoModelForCausalLM.from_pretrained("m", device_map=where)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
