import torch
merged = torch.zeros(4, 8, dtype=torch.bfloat16)
merged[torch.tensor([True, False, True, False])] = torch.randn(2, 8)
