import torch


def turn(scaler, model, optimizer, last):
    if not last:
        return
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for number in range(8):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(4, 4, device="cuda")).sum()
    scaler.scale(loss).backward()
    turn(scaler, model, optimizer, number % 4 == 3)
