import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
dtype = torch.float16 if torch.cuda.is_available() else torch.float32
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=dtype)  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=True)).train()
