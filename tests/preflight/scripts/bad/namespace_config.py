import torch
from types import SimpleNamespace
from transformers import AutoModel, Trainer, TrainingArguments
cfg = SimpleNamespace(dtype="float16", fp16=True)
model = AutoModel.from_pretrained("x", torch_dtype=getattr(torch, cfg.dtype))  # expect: P101 error
targs = {"output_dir": "o", **{"fp16": cfg.fp16}}
Trainer(model, TrainingArguments(**targs)).train()
