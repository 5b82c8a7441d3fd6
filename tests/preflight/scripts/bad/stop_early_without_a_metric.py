"""EarlyStoppingCallback needs metric_for_best_model."""

from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification, EarlyStoppingCallback
from mydata import train, dev

args = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, args, train_dataset=train, eval_dataset=dev, callbacks=[EarlyStoppingCallback(3)]).train()  # expect: V307 error
