from transformers import AutoModelForCausalLM
import torch
def load_model(name, dtype=torch.float16):
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)  # expect: P101 error
