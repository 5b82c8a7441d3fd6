import torch
from transformers import AutoModel, Trainer, TrainingArguments
REG = {}
def register(name):
    def deco(f):
        REG[name] = f
        return f
    return deco
@register("a")
def build_a():
    return AutoModel.from_pretrained("bert", torch_dtype=torch.float16)  # expect: P101 error
model = REG["a"]()
Trainer(model, TrainingArguments("o", fp16=True)).train()
