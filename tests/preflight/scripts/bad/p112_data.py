import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
for x in get_loader():
    model(x).sum().backward()
    opt.step()
    for p in model.parameters():
        p.data = p.data.half()  # expect: P112 error
