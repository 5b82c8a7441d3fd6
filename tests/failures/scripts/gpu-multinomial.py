import torch

p = torch.rand(2, 10, device="cuda")
p[0, 3] = float("nan")
print(torch.multinomial(p, 1).cpu())
