import torch

g = torch.cuda.CUDAGraph()
x = torch.randn(4, device="cuda")
with torch.cuda.graph(g):
    print(x.sum().item())
