import copy, torch
model = torch.nn.Linear(1, 1).cuda()
ema = copy.deepcopy(model).half()
opt = torch.optim.AdamW(model.parameters())
def update(ema, model, decay=0.999):
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.lerp_(p, 1 - decay)  # expect: P113 warning
for x in get_loader():
    model(x).sum().backward()
    opt.step()
    update(ema, model)
