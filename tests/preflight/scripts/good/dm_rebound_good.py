import os
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
device_map = "auto"
world_size = int(os.environ.get("WORLD_SIZE", 1))
ddp = world_size != 1
if ddp:
    device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}
model = AutoModelForCausalLM.from_pretrained("x", device_map=device_map)
Trainer(model=model, args=TrainingArguments("o"), train_dataset=None).train()
