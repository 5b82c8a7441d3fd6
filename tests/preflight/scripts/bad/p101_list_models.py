import torch
from transformers import AutoModel, Trainer, TrainingArguments
for name in ["a", "b"]:
    model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)  # expect: P101 error
    Trainer(model, TrainingArguments(f"o/{name}", fp16=True)).train()
