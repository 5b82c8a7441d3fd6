# target: capability=6.0
import torch

model = torch.nn.Linear(4, 4).to("cuda")
model.half()  # expect: P102 error
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=any(p.dtype == torch.float32 for p in model.parameters()))
for batch in get_loader():
    scaler.scale(model(batch).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
