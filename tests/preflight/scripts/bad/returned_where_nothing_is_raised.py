import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def load(name):
    try:
        return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float16)  # expect: P101 error
    except OSError:
        return None


Trainer(load("gpt2"), TrainingArguments("out", fp16=True)).train()
