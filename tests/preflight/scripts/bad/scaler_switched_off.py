import torch
from transformers import AutoModel

dtype = torch.float16
model = AutoModel.from_pretrained("m", torch_dtype=dtype)  # expect: P102 error
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=dtype != torch.float16)  # expect: P108 error
for batch in range(4):
    with torch.autocast("cuda", dtype=dtype):
        loss = model(batch).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
