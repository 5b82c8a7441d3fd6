import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = model(torch.ones(4, 4)).sum()
scaler.scale(loss).backward()
norm = torch.nn.utils.get_total_norm([each.grad for each in model.parameters()])
torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)  # expect: P116 warning
scaler.step(optimizer)
scaler.update()
