import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)  # expect: P104 error
config = LoraConfig(r=8, modules_to_save=["lm_head"])
model = get_peft_model(base, config)
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
