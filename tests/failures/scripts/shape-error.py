import torch
torch.nn.Linear(8, 2)(torch.randn(4, 9))
