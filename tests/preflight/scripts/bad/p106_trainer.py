import torch
from transformers import AutoModel, Trainer, TrainingArguments
model = AutoModel.from_pretrained("x", torch_dtype=torch.bfloat16)  # expect: P106 error, P131 info
Trainer(model, TrainingArguments("o", fp16=True, bf16=False)).train()
