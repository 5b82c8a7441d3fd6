import torch

e = torch.nn.Embedding(100, 64).cuda()
print(e(torch.full((4, 8), 100).cuda()).sum().item())
