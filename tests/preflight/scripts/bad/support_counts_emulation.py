# target: capability=7.5
import torch
from transformers import AutoModel, Trainer, TrainingArguments

bf16 = torch.cuda.is_bf16_supported()  # expect: P121 warning
args = TrainingArguments(
    "o",
    bf16=bf16,  # expect: P131 error
    fp16=not bf16,
)
Trainer(AutoModel.from_pretrained("m", dtype="float32"), args).train()
