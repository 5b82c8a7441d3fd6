from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification, EarlyStoppingCallback
from mydata import train, dev

args = TrainingArguments("out", eval_strategy="steps", load_best_model_at_end=True)
args2 = TrainingArguments(
    "out", eval_strategy="steps", eval_steps=0.1, save_steps=0.2, load_best_model_at_end=True
)
args3 = TrainingArguments(
    "out",
    eval_strategy="epoch",
    save_strategy="best",
    metric_for_best_model="f1",
    load_best_model_at_end=True,
)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, args, train_dataset=train, eval_dataset=dev, callbacks=[EarlyStoppingCallback(3)]).train()
Trainer(model, args2, train_dataset=train, eval_dataset=dev).train()
Trainer(model, args3, train_dataset=train, eval_dataset=dev).train()
