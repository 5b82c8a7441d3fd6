import functools, torch
from transformers import AutoModel, Trainer, TrainingArguments
@functools.lru_cache(maxsize=None)
def load():
    return AutoModel.from_pretrained("x", torch_dtype="float16")  # expect: P101 error
Trainer(load(), TrainingArguments("o", fp16=True)).train()
