import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
p = argparse.ArgumentParser(); p.add_argument("--deepspeed", default=None)
a = p.parse_args()
if a.deepspeed:
    model = AutoModelForCausalLM.from_pretrained("x")
else:
    model = AutoModelForCausalLM.from_pretrained("x", device_map="auto")  # expect: D204 warning
Trainer(model=model, args=TrainingArguments("o", deepspeed=a.deepspeed), train_dataset=None).train()
