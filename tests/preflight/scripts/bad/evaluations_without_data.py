"""eval_strategy without an eval_dataset."""

from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification
from mydata import train

args = TrainingArguments("out", eval_strategy="steps", eval_steps=300)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, args, train_dataset=train).train()  # expect: V307 error
