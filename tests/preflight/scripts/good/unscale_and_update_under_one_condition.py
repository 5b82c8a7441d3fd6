import torch
from mine import uses_amp

model = torch.nn.Linear(8, 8).cuda()
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
scaler = torch.amp.GradScaler("cuda")
amp = uses_amp(model)


def forward(batch):
    with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    if amp:
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


for _ in range(100):
    forward(torch.randn(4, 8, device="cuda"))
    for optimizer in optimizers:
        scaler.step(optimizer)
        optimizer.zero_grad()
    if amp:
        scaler.update()
