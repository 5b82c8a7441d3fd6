from dataclasses import dataclass, field
import torch
from transformers import AutoModel, Trainer, TrainingArguments
@dataclass
class Cfg:
    dtype: torch.dtype = torch.float16
    fp16: bool = True
    extra: dict = field(default_factory=dict)
class Runner:
    cfg = Cfg()
    def __init__(self):
        self.model = AutoModel.from_pretrained("x", torch_dtype=self.cfg.dtype)  # expect: P101 error
    def __call__(self):
        Trainer(self.model, TrainingArguments("o", fp16=self.cfg.fp16)).train()
Runner()()
