import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)  # expect: P101 error
args = TrainingArguments(output_dir="o", fp16=True)
Trainer(model=model, args=args, train_dataset=None).train()
