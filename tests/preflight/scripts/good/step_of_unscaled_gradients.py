import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for batch in range(3):
    scaler.scale(model(batch).sum()).backward()
    scaler.unscale_(optimizer)
    if torch.isfinite(model.weight.grad).all():
        optimizer.step()
    optimizer.zero_grad()
