# target: processes=2
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("some/model", torch_dtype=torch.float16)  # expect: P101 error
args = TrainingArguments("out", fp16=True)
Trainer(model=model, args=args).train()
