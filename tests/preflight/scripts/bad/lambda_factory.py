import torch
from transformers import AutoModel, Trainer, TrainingArguments
MODELS = {"bert": lambda: AutoModel.from_pretrained("bert", torch_dtype=torch.float16)}  # expect: P101 error
model = MODELS["bert"]()
Trainer(model, TrainingArguments("o", fp16=True)).train()
