import torch
from transformers import TrainingArguments
def pick():
    name = torch.cuda.get_device_name(0)
    return torch.cuda.get_device_capability(0) >= (8, 0)
use_bf16 = pick()
args = TrainingArguments(
    output_dir="o",
    bf16=use_bf16,  # expect: P120 info
    fp16=not use_bf16,  # expect: P120 info
)
