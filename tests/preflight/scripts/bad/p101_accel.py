import torch
from accelerate import Accelerator
from transformers import AutoModel
acc = Accelerator(mixed_precision="fp16")
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16)  # expect: P101 error
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, opt, dl = acc.prepare(model, opt, get_loader())
for b in dl:
    loss = model(**b).loss
    acc.backward(loss)
    opt.step()
