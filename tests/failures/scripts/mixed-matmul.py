import torch
model = torch.nn.Linear(8, 1).bfloat16()
model(torch.randn(4, 8))
