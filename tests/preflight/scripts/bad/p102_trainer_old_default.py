# target: capability=7.5 torch=2.5.1 transformers=4.56.0
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("x", dtype=torch.float16)  # expect: P102 error
Trainer(model=model, args=TrainingArguments("out", bf16=False), train_dataset=data).train()
