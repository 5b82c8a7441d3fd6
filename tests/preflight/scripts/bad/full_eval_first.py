from transformers import AutoModel, Trainer, TrainingArguments

trainer = Trainer(AutoModel.from_pretrained("m", dtype="float32"), TrainingArguments("o", fp16_full_eval=True))
trainer.evaluate()  # expect: P117 warning
trainer.train()
