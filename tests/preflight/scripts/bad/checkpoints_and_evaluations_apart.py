"""The best model needs checkpoints at the evaluations."""

from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification
from mydata import train, dev

args = TrainingArguments("out", eval_strategy="epoch", save_steps=500, load_best_model_at_end=True)  # expect: V307 error
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, args, train_dataset=train, eval_dataset=dev).train()
