import torch

x = torch.randn(10, device="cuda")
i = torch.tensor([3, 11], device="cuda")
x[i] = 0
print(x.cpu())
