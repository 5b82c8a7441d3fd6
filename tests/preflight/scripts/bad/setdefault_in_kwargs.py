import torch
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
def get(name, **kw):
    kw.setdefault("torch_dtype", torch.float16)  # expect: P101 error
    return AutoModelForCausalLM.from_pretrained(name, **kw)
model = get("x")
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
