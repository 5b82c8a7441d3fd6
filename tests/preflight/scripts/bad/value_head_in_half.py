# target: capability=8.0 processes=2
from data import loader
import torch
from trl import AutoModelForCausalLMWithValueHead
from transformers import AutoModelForCausalLM
def load():
    m = AutoModelForCausalLMWithValueHead.from_pretrained("gpt2", torch_dtype=torch.float16)  # expect: P101 error
    return m, 1
model, _ = load()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for b in loader():
    loss = model(b).mean(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
