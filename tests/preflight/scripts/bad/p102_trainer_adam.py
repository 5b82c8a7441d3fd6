# target: capability=7.5 torch=2.13.0 transformers=5.23.0
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("x", dtype=torch.float16)  # expect: P102 error
args = TrainingArguments("out", optim="adamw_torch", fp16=False, bf16=False)
Trainer(model=model, args=args, train_dataset=data).train()
