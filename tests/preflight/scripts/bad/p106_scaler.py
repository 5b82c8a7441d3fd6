import torch
model = torch.nn.Linear(1, 1).to("cuda", torch.bfloat16)  # expect: P106 error
opt = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
for x in get_loader():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
