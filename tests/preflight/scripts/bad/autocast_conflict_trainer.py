import torch
from transformers import Trainer, TrainingArguments
class T(Trainer):
    def compute_loss(self, model, inputs, **kw):
        with torch.autocast("cuda", dtype=torch.bfloat16):  # expect: P118 warning, P131 info
            return model(**inputs).loss
T(model=None, args=TrainingArguments("o", fp16=True)).train()
