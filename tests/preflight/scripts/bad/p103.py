from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x", torch_dtype="auto")  # expect: P103 warning
Trainer(model, TrainingArguments("o", fp16=True)).train()
