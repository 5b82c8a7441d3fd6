import copy, torch
model = torch.nn.Linear(1, 1).cuda()
ema = copy.deepcopy(model)
opt = torch.optim.AdamW(model.parameters())
for x in get_loader():
    model(x).sum().backward()
    opt.step()
    for e, p in zip(ema.parameters(), model.parameters()):
        e.data.lerp_(p.data, 0.01)
