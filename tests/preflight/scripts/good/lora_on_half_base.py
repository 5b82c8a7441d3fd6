# target: processes=2
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
Trainer(get_peft_model(base, LoraConfig()), TrainingArguments("o", fp16=True)).train()

quantized = AutoModelForCausalLM.from_pretrained(
    "m", quantization_config=BitsAndBytesConfig(load_in_4bit=True), torch_dtype=torch.float16
)
quantized = prepare_model_for_kbit_training(quantized)
quantized = get_peft_model(quantized, LoraConfig())
Trainer(quantized, TrainingArguments("o", fp16=True)).train()
