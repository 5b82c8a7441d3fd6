import argparse, torch
from transformers import AutoModel, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--train_file", default=None)
p.add_argument("--model", default=None)
args = p.parse_args()
if args.train_file is None:
    raise ValueError("need a file")
if not args.model:
    print("usage")
    exit(1)
model = AutoModel.from_pretrained(args.model, torch_dtype=torch.float16)  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=True)).train()
