import torch
from transformers import AutoModel, Trainer, TrainingArguments
if (use := torch.cuda.is_available()):
    model = AutoModel.from_pretrained("x", torch_dtype=(dt := torch.float16))  # expect: P101 error
    Trainer(model, TrainingArguments("o", fp16=use)).train()
