# target: capability=8.0 processes=2
import os, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
DT = os.environ.get("DTYPE", "float16")
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=DT)  # expect: P101 error
Trainer(model, TrainingArguments(output_dir="o", fp16=True), train_dataset=[]).train()
