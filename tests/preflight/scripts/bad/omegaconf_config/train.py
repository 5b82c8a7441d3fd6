from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
cfg = OmegaConf.load("c.yaml")
model = AutoModelForCausalLM.from_pretrained(cfg.name, torch_dtype=cfg.dtype)  # expect: P101 error
Trainer(model=model, args=TrainingArguments("o", fp16=cfg.train.fp16)).train()
