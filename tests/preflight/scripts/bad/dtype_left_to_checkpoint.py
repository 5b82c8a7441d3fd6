# target: transformers=5.23
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("m")  # expect: P103 warning
Trainer(model=model, args=TrainingArguments("o", fp16=True)).train()
