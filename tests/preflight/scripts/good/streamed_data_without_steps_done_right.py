from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
from datasets import load_dataset

ds = load_dataset("allenai/c4", "en", split="train", streaming=True).map(lambda r: r)
args = TrainingArguments("out", max_steps=3000)
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, args, train_dataset=ds).train()
