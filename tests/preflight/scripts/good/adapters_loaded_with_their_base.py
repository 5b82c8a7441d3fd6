import torch
from peft import AutoPeftModelForCausalLM
from transformers import Trainer, TrainingArguments

model = AutoPeftModelForCausalLM.from_pretrained("sft", torch_dtype=torch.float16, is_trainable=True)
Trainer(model, TrainingArguments("out", fp16=True)).train()  # PEFT makes the adapters float32
