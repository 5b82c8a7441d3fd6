from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification
from mydata import train, dev

args = TrainingArguments("out", eval_strategy="steps", eval_steps=300)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, args, train_dataset=train, eval_dataset=dev).train()
