import os

import torch
import torch.distributed as dist


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


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(0)
dist.init_process_group("nccl")
m = torch.nn.parallel.DistributedDataParallel(net(device="cuda"), device_ids=[0])
train(m)
