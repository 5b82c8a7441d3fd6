from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x")
Trainer(model=model, args=TrainingArguments("o"), train_dataset=None).train()
m2 = AutoModelForCausalLM.from_pretrained("o", device_map="auto")
m2.generate()
