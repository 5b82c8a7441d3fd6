# target: args=--quiet capability=8.0 processes=2
import argparse
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ScriptArguments:
    spread: bool = False


parser = argparse.ArgumentParser()
parser.add_argument("--half", action="store_true")
parser.add_argument("--quiet", action="store_true")
args = parser.parse_args()
script = HfArgumentParser((ScriptArguments,)).parse_args_into_dataclasses()[0]
device_map = None
if script.spread:
    device_map = "auto"
model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.float32, device_map=device_map)
if args.half:
    model = model.half()
if args.quiet:
    print("quiet")
Trainer(model=model, args=TrainingArguments("o", fp16=True), train_dataset=[]).train()
