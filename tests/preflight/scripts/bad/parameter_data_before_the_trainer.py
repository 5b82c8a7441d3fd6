import torch
from transformers import AutoModel, Trainer, TrainingArguments
model = AutoModel.from_pretrained("x", torch_dtype=torch.float32)
for p in model.parameters():
    p.data = p.data.half()  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=True)).train()
