import torch
from accelerate import Accelerator


def net(**k):
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(**k)


def train(model, steps=5, dtype=None):
    opt = torch.optim.AdamW(model.parameters())
    for i in range(steps):
        x = torch.randn(32, 64, device="cuda", dtype=dtype)
        loss = model(x).float().logsumexp(-1).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        print("step", i, "loss", loss.item(), flush=True)


a = Accelerator(mixed_precision="fp8")
m = net(device="cuda")
m, o = a.prepare(m, torch.optim.AdamW(m.parameters()))
train(m)
