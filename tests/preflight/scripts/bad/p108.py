import torch
from transformers import AutoModel
model = AutoModel.from_pretrained("x", torch_dtype=torch.float16).cuda()  # expect: P102 error
opt = torch.optim.AdamW(model.parameters(), 1e-4)
is_half = next(model.parameters()).dtype == torch.float16
scaler = torch.cuda.amp.GradScaler(enabled=not is_half)  # expect: P108 error
for b in get_loader():
    loss = model(**b).loss
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
