# target: capability=7.5
import torch
from transformers import AutoModel, Trainer, TrainingArguments

bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
model = AutoModel.from_pretrained("m", torch_dtype=torch.bfloat16 if bf16 else torch.float32)
Trainer(model, TrainingArguments("o", bf16=bf16, fp16=not bf16)).train()
