import torch

keep = []
for i in range(1000):
    keep.append(torch.randn(1 << 28, device="cuda"))
    print("step", i, flush=True)
