try:
    from transformers import Trainer, TrainingArguments, AutoModel
except ImportError:
    Trainer = None
import torch
try:
    model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
except OSError:
    model = None
Trainer(model, TrainingArguments("o", fp16=True)).train()
