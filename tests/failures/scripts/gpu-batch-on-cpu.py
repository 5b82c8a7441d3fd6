import torch


def net(**k):
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(**k)


m = net(device="cuda")
print(m(torch.randn(4, 64)))
