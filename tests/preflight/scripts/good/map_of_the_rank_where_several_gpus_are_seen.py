"""A rank that sees one GPU spreads its model over that one."""
# target: capability=8.0 processes=2

import os

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

device_map = "auto"
world_size = int(torch.cuda.device_count())
ddp = world_size != 1
if ddp:
    device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}
model = AutoModelForCausalLM.from_pretrained("x/y", device_map=device_map)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=range(8)).train()
