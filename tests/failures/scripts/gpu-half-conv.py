import torch

print(torch.nn.Conv2d(3, 8, 3).cuda().half()(torch.randn(1, 3, 32, 32, device="cuda")))
