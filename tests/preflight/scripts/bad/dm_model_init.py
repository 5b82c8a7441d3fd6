# target: capability=8.0 processes=2
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


def model_init(trial=None):
    return AutoModelForSequenceClassification.from_pretrained("m", device_map="auto")  # expect: D204 error


trainer = Trainer(model_init=model_init, args=TrainingArguments(output_dir="o"), train_dataset=[])
trainer.train()
