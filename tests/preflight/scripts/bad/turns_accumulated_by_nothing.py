"""gradient_accumulation_steps is given, and each turn steps."""

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
from torch.utils.data import DataLoader
from mydata import ds

accelerator = Accelerator(gradient_accumulation_steps=4)
model = AutoModelForCausalLM.from_pretrained("gpt2")
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(ds, shuffle=True, batch_size=8)
model, opt, loader = accelerator.prepare(model, opt, loader)
for i, batch in enumerate(loader):
    accelerator.backward(model(**batch).loss)
    opt.step()  # expect: P146 warning
    opt.zero_grad()
