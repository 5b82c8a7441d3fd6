import torch
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)
for p in model.parameters():
    p.requires_grad = False
    if p.ndim == 1:
        p.data = p.data.to(torch.float32)
model.head.float()
Trainer(model, TrainingArguments("o", fp16=True)).train()
