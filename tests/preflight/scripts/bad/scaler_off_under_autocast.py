import torch

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=False)
for _ in range(3):
    with torch.autocast("cuda", torch.float16):  # expect: P114 warning
        loss = net(torch.zeros(2, 4).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
