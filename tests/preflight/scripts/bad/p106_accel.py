import torch
from accelerate import Accelerator
from transformers import AutoModel
accelerator = Accelerator(mixed_precision="fp16")
model = AutoModel.from_pretrained("x").bfloat16()  # expect: P106 error
opt = torch.optim.AdamW(model.parameters())
model, opt = accelerator.prepare(model, opt)
for b in get_loader():
    accelerator.backward(model(b).loss); opt.step()
