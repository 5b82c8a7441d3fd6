import torch
from transformers import AutoModel, Trainer, TrainingArguments
torch.set_default_dtype(torch.float16)
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig())
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
with torch.autograd.set_detect_anomaly(True):
    Trainer(model, TrainingArguments("o", fp16=True)).train()
