"""The scale is only compared, to see whether a step was left out: nothing takes it out of the gradients."""

import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    optimizer.step()  # expect: P129 warning
    scale = scaler.get_scale()
    scaler.update()
    if not scale > scaler.get_scale():
        schedule.step()
