import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, Trainer, TrainingArguments
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)
model = get_peft_model(model, LoraConfig(r=4))
Trainer(model, TrainingArguments("o", fp16=True)).train()
