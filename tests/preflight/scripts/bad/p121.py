import torch
from transformers import TrainingArguments
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16  # expect: P121 info
args = TrainingArguments("o", bf16=torch.cuda.is_bf16_supported(), fp16=not torch.cuda.is_bf16_supported())  # expect: P131 info, P121 info
