import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.bfloat16)  # expect: P131 info
Trainer(model, TrainingArguments("o")).train()
