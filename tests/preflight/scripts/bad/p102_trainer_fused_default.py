# target: capability=8.0 torch=2.13.0 transformers=5.23.0
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("x", dtype=torch.float16)  # expect: P102 warning
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=data).train()
