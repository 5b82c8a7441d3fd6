import torch
from trl import SFTTrainer, SFTConfig
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
q = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("x", quantization_config=q)
trainer = SFTTrainer(model=model, peft_config=LoraConfig(r=8), train_dataset=None,
                     args=SFTConfig(output_dir="o", fp16=True, bf16=False))  # expect: P107 error
trainer.train()
