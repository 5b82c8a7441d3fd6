# target: processes=2
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model_kwargs = dict(dtype="float16", device_map="balanced")  # expect: P101 error, D204 error
model = AutoModelForCausalLM.from_pretrained("m", **model_kwargs)
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
