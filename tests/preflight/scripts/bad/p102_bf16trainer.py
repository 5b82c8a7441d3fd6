import torch
from transformers import AutoModel, Trainer, TrainingArguments
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P102 warning
Trainer(model, TrainingArguments("o", bf16=True)).train()  # expect: P131 info
