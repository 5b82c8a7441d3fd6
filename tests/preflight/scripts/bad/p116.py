import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
for x in get_loader():
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: P116 warning
    scaler.step(opt)
    scaler.update()
