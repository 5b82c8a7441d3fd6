import json, os, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
HERE = os.path.dirname(os.path.abspath(__file__))
cfg = json.load(open(os.path.join(HERE, "config.json")))
model = AutoModelForCausalLM.from_pretrained(cfg["name"], torch_dtype=cfg["dtype"])  # expect: P101 error
Trainer(model=model, args=TrainingArguments("o", fp16=cfg.get("fp16", False))).train()
