import torch
from transformers import AutoModelForCausalLM
attn = "flash_attention_2" if torch.cuda.get_device_capability() >= (8, 0) else "sdpa"
model = AutoModelForCausalLM.from_pretrained("x", attn_implementation=attn)
