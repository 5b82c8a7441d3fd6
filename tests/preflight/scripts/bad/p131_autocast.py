import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
for x in get_loader():
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):  # expect: P131 info
        loss = model(x).sum()
    loss.backward()
    opt.step()
