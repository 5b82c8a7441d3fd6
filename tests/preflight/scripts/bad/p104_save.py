import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, Trainer, TrainingArguments
config = LoraConfig(r=4, modules_to_save=["lm_head", "embed_tokens"])  # expect: P104 info
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P104 error
model = get_peft_model(model, config)
Trainer(model, TrainingArguments("o", fp16=True)).train()
