import yaml, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
with open("config.yaml") as f:
    cfg = yaml.safe_load(f)
model = AutoModelForCausalLM.from_pretrained(cfg["model"]["name"], torch_dtype=getattr(torch, cfg["model"]["dtype"]))  # expect: P101 error
args = TrainingArguments(output_dir=cfg["out"], fp16=cfg["train"]["fp16"])
Trainer(model=model, args=args).train()
