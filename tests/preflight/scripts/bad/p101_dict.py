import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
DTYPES = {"fp16": torch.float16, "fp32": torch.float32}
PRECISION = "fp16"
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=DTYPES[PRECISION])  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=PRECISION == "fp16")).train()
