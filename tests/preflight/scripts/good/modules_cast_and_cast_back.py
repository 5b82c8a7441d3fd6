"""Modules that are cast one by one and then trained in float32, or not at all."""
# target: capability=8.0 processes=2 transformers=4.50

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Shapes(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **kwargs):
        if args.bf16:
            model.half()
        print(sum(p.numel() for p in model.parameters()))


def train(model):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda")
    for batch in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def initial(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight.half().float())


back = nn.Sequential(nn.Linear(4, 4)).half()
for module in back.modules():
    module.float()
train(back.apply(initial))

part = AutoModelForCausalLM.from_pretrained("m")
for module in part.vision.modules():
    module.half()
for name, module in part.named_modules():
    if "vision" in name:
        module.requires_grad_(False)
        module.half()
train(part)

model = get_peft_model(AutoModelForCausalLM.from_pretrained("m"), LoraConfig(r=8))
for name, module in model.named_modules():
    if "norm" in name:
        module = module.to(torch.float32)
    if "embed" in name:
        module = module.to(torch.float16)
Trainer(model, TrainingArguments("o", fp16=True), callbacks=[Shapes()]).train()
