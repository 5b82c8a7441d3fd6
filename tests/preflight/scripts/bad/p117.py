from transformers import Trainer, TrainingArguments, AutoModel
args = TrainingArguments("o", fp16=True, fp16_full_eval=True)
t = Trainer(model=AutoModel.from_pretrained("x", dtype="float32"), args=args)
print(t.evaluate())  # expect: P117 warning
t.train()
