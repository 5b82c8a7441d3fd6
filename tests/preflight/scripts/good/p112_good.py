import torch
model = torch.nn.Linear(1, 1).half()
for p in model.parameters():
    if p.requires_grad:
        p.data = p.data.float()
opt = torch.optim.AdamW(model.parameters())
opt.step()
