import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
for i in range(3):
    model(torch.ones(1, 1).cuda()).sum().backward(); opt.step()
    torch.save({k: v.half() for k, v in model.state_dict().items()}, "a.pt")
