import torch
from accelerate import Accelerator
from transformers import AutoModel
accelerator = Accelerator(mixed_precision="no")
model = AutoModel.from_pretrained("x", dtype=torch.float16)  # expect: P102 error
opt = torch.optim.Adam(model.parameters())
model, opt = accelerator.prepare(model, opt)
for b in get_loader():
    accelerator.backward(model(b).loss)
    opt.step()
