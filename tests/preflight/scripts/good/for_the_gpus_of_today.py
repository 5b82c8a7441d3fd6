import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("x", attn_implementation="flash_attention_2", torch_dtype=torch.float32)
Trainer(model=model, args=TrainingArguments("o", bf16=True)).train()
