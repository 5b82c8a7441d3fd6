import torch
torch.compile(lambda x: (x.sin() + x.cos()).sum())(torch.randn(64))
