import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments
from peft import LoraConfig, prepare_model_for_kbit_training
from trl import SFTTrainer
compute_dtype = getattr(torch, "float16")
bnb_config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute_dtype)
device_map = {"": 0}  # expect: D204 info
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", quantization_config=bnb_config, device_map=device_map)  # expect: D204 warning
model.config.use_cache = False
training_arguments = TrainingArguments(output_dir="o", optim="paged_adamw_32bit", fp16=False, bf16=False)
trainer = SFTTrainer(model=model, peft_config=LoraConfig(r=64), args=training_arguments)
trainer.train()
