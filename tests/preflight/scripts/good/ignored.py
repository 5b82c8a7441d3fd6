import torch
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)  # gpulaunch: ignore[P101]
Trainer(model, TrainingArguments("o", fp16=True)).train()
