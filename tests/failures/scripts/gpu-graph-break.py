import torch


@torch.compile(fullgraph=True)
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


print(f(torch.randn(4, device="cuda")))
