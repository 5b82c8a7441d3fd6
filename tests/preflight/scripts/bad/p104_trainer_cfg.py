# target: trl=0.20.0
import torch
from peft import LoraConfig
from trl import SFTTrainer, SFTConfig
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.float16)  # expect: P104 error
peft_config = LoraConfig(r=4, bias="all")  # expect: P104 info
SFTTrainer(model, args=SFTConfig(fp16=True), peft_config=peft_config).train()
