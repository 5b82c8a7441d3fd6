# target: processes=2
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model_kwargs = dict(dtype="float16", device_map="balanced")
model = AutoModelForCausalLM.from_pretrained("m", **model_kwargs)  # expect: P101 error, D204 error
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
