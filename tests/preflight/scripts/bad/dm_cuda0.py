from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x", device_map="cuda:0")  # expect: D204 warning
Trainer(model=model, args=TrainingArguments("o"), train_dataset=None).train()
