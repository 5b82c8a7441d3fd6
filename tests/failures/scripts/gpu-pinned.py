import torch

keep = [torch.empty(60 << 30, dtype=torch.uint8).pin_memory() for _ in range(3)]
