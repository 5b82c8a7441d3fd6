import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.bfloat16)  # expect: P106 error
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
