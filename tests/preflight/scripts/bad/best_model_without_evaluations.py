"""Nothing is evaluated, and the best model is wanted."""

from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification
from mydata import train, dev


def config(out):
    kw = dict(output_dir=out, num_train_epochs=3, save_strategy="steps", save_steps=500)  # expect: V307 error
    kw["load_best_model_at_end"] = True
    return TrainingArguments(**kw)


model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, config("out"), train_dataset=train, eval_dataset=dev).train()
