# target: capability=8.0 processes=4
import tomllib

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

with open("train.toml", "rb") as file:
    config = tomllib.load(file)["model"]
model = AutoModelForCausalLM.from_pretrained(config["name"], device_map=config["load"]["device_map"])  # expect: D204 error
Trainer(model=model, args=TrainingArguments("out"), train_dataset=[]).train()
