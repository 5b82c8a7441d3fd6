import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--device-map", default="auto")
a = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("x", device_map=a.device_map)  # expect: D204 warning
Trainer(model=model, args=TrainingArguments("o"), train_dataset=None).train()
