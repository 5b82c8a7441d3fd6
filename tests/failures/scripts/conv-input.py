import torch
torch.nn.Conv2d(3, 4, 3).half()(torch.randn(1, 3, 8, 8))
