import torch
def to_half(m):
    for name, param in m.named_parameters():
        if "norm" not in name:
            param.data = param.data.to(torch.bfloat16)  # expect: P112 error
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
for x in get_loader():
    loss = model(x).sum(); loss.backward(); opt.step()
    to_half(model)
