import torch


def net(**k):
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(**k)


m = net(device="cuda", dtype=torch.bfloat16)
o = torch.optim.SGD(m.parameters(), 1e-3)
s = torch.amp.GradScaler()
l = m(torch.randn(4, 64, device="cuda", dtype=torch.bfloat16)).sum()
s.scale(l).backward()
s.step(o)
s.update()
print("went")
