# target: args=--model,m
import argparse

from transformers import AutoModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser(description="use --fp16 or model.half() and device_map='auto'")
parser.add_argument("--half", action="store_true")
args = parser.parse_args()
model = AutoModel.from_pretrained("m", dtype="float32")
if args.half:
    model.half()
Trainer(model, TrainingArguments("o", fp16=True)).train()
