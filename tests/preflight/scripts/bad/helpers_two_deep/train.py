from lib.factory import build
from transformers import Trainer, TrainingArguments
model = build("gpt2")
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
