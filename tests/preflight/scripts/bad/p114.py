import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for x in get_loader():
    with torch.autocast("cuda", dtype=torch.float16):  # expect: P114 warning
        loss = model(x).sum()
    loss.backward()
    opt.step()
