"""The script takes the scale out itself, and leaves out the step of an overflow."""

import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    for parameter in model.parameters():
        parameter.grad.div_(scale)
    if all(torch.isfinite(parameter.grad).all() for parameter in model.parameters()):
        optimizer.step()
    scaler.update()
