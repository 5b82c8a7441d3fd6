# target: transformers=5.23
import argparse

from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="bert-base-uncased")
args = parser.parse_args()
model = AutoModelForSequenceClassification.from_pretrained(args.model)
Trainer(model, TrainingArguments("out", fp16=True), train_dataset=[1]).train()
