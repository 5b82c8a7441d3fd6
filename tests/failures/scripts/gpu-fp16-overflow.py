import torch


def net(**k):
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(**k)


m = net(device="cuda")
o = torch.optim.SGD(m.parameters(), 1e8)
s = torch.amp.GradScaler()
for i in range(12):
    with torch.autocast("cuda", torch.float16):
        l = m(torch.randn(32, 64, device="cuda") * 100).pow(2).mean()
    s.scale(l).backward()
    s.step(o)
    s.update()
    o.zero_grad()
    print({"loss": l.item(), "scale": s.get_scale()}, flush=True)
assert l.isfinite(), "loss is not finite"
