import torch

model = torch.compile(torch.nn.Linear(32, 4).cuda(), backend="induktor")
print(model(torch.randn(8, 32, device="cuda")).sum().item())
