import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
model = get_peft_model(model, LoraConfig(r=8))
model.to(torch.float16)  # expect: P105 error
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
