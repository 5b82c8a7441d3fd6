import torch
from transformers import TrainingArguments
ok = torch.cuda.get_device_capability()[0] >= 8
TrainingArguments("o", bf16=ok, fp16=not ok)
