import torch
model = torch.nn.Linear(1, 1).cuda(0)  # expect: D201 warning
opt = torch.optim.SGD(model.parameters(), 0.1)
opt.step()
