"""Casts that go over the modules of a model, or that a function given to apply() makes."""
# target: capability=8.0 processes=2 transformers=4.50

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for batch in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def lower(module):
    if isinstance(module, nn.Conv2d):
        module.half()  # expect: P101 warning


every = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
for module in every.children():
    module.to(torch.float16)  # expect: P101 error
train(every)

listed = nn.Sequential(nn.Linear(4, 4))
[module.half() for module in listed.modules()]  # expect: P101 error
train(listed)

applied = nn.Sequential(nn.Linear(4, 4))
train(applied.apply(lambda module: module.half()))  # expect: P101 error

chosen = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
chosen.apply(lower)
train(chosen)

skipped = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
for name, module in skipped.named_modules():
    if "norm" in name:
        continue
    module.half()  # expect: P101 warning
train(skipped)

for condition in (1, 2):
    model = get_peft_model(AutoModelForCausalLM.from_pretrained("m"), LoraConfig(r=8))
    for name, module in model.named_modules():
        if condition == 1 and isinstance(module, LoraLayer):
            module = module.to(torch.float16)  # expect: P105 warning
        if condition == 2 and "lora_" in name:
            module.half()  # expect: P105 warning
    Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
