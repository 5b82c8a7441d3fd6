import argparse

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--auto", action="store_true")
args = parser.parse_args([])
if args.auto:
    model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
else:
    model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out")).train()
