# target: capability=8.0 processes=4
from datetime import datetime

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from data import dataset

name = datetime.now().strftime("%Y%m%d-%H%M%S")  # expect: R416 warning
output = f"runs/{name}"
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments(output_dir=output, bf16=True), train_dataset=dataset()).train()
