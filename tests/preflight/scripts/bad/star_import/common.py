import torch
from transformers import AutoModelForCausalLM, TrainingArguments
__all__ = ["get_model", "get_args"]
def get_model():
    return AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.half)  # expect: P101 error
def get_args():
    return TrainingArguments("o", fp16=True)
