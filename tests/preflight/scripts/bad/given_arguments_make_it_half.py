# target: args=--half,--fp16
import argparse

from transformers import AutoModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--half", action="store_true")
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = AutoModel.from_pretrained("m", dtype="float32")
if args.half:
    model = model.half()  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=args.fp16)).train()
