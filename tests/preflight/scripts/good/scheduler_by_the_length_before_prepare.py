import torch
import math
import argparse
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, get_scheduler
from torch.utils.data import DataLoader

ds = [{"input_ids": [number]} for number in range(1000)]

p = argparse.ArgumentParser()
p.add_argument("--max_train_steps", type=int, default=None)
p.add_argument("--num_train_epochs", type=int, default=3)
args = p.parse_args()
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(ds, shuffle=True, batch_size=8)
num_update_steps_per_epoch = math.ceil(len(loader) / 1)
if args.max_train_steps is None:
    args.max_train_steps = args.num_train_epochs * num_update_steps_per_epoch
    overrode = True
sched = get_scheduler(
    "linear",
    optimizer=optimizer,
    num_warmup_steps=0,
    num_training_steps=args.max_train_steps if overrode else args.max_train_steps * accelerator.num_processes,
)
model, optimizer, loader, sched = accelerator.prepare(model, optimizer, loader, sched)
num_update_steps_per_epoch = math.ceil(len(loader) / 1)
if overrode:
    args.max_train_steps = args.num_train_epochs * num_update_steps_per_epoch
done = 0
for epoch in range(args.num_train_epochs):
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        sched.step()
        optimizer.zero_grad()
        done += 1
        if done >= args.max_train_steps:
            break
