import torch
torch.linalg.svd(torch.randn(4, 4).half())
