import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("x", quantization_config=bnb, device_map="auto")  # expect: D204 warning
model.gradient_checkpointing_enable()
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=8))
trainer = Trainer(model=model, train_dataset=None, args=TrainingArguments("o", fp16=True))
model.config.use_cache = False
trainer.train()
