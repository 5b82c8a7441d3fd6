# target: transformers=4.50.0
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("x")
model = get_peft_model(model, LoraConfig(r=8))
model.gradient_checkpointing_enable()  # expect: P125 warning
Trainer(model, TrainingArguments("o")).train()
