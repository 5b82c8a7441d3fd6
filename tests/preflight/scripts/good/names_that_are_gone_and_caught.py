# target: capability=8.0 transformers=5.24
from dataclasses import dataclass

import transformers

try:
    from transformers import AdamW
except ImportError:
    from torch.optim import AdamW


@dataclass
class Arguments(transformers.TrainingArguments):
    warmup_ratio: float = 0.1


arguments = Arguments("out", warmup_ratio=0.2)
