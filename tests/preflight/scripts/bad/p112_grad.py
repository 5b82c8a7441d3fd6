import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
for x in get_loader():
    model(x).sum().backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.data = p.grad.data.to(torch.bfloat16)  # expect: P112 error
    opt.step()
