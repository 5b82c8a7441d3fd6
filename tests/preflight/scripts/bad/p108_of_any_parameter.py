# target: capability=8.0
import torch

model = torch.nn.Linear(4, 4).cuda().half()  # expect: P102 error
enabled = torch.cuda.is_available()
if any(p.dtype == torch.float16 for p in model.parameters()):
    enabled = False
scaler = torch.amp.GradScaler("cuda", enabled=enabled)  # expect: P108 error
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
