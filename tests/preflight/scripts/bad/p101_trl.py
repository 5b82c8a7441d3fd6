# target: trl=0.20.0
import torch
from trl import SFTTrainer, SFTConfig
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
trainer = SFTTrainer(model=model, args=SFTConfig(output_dir="o", fp16=True, bf16=False), train_dataset=None)
trainer.train()
