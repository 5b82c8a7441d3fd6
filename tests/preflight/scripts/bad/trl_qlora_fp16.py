import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("m", quantization_config=bnb)
args = SFTConfig("o", fp16=True, bf16=False)  # expect: P107 error
SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=8)).train()
