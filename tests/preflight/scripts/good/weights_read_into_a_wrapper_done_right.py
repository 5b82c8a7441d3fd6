import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from data import loader
from net import Net

def save_checkpoint(model, opt, epoch):
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, "ck.pt")

def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = DDP(Net().to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    first = 0
    if os.path.exists("ck.pt"):
        ck = torch.load("ck.pt", map_location="cpu")
        model.module.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        first = ck["epoch"] + 1
    for epoch in range(first, 10):
        for x, y in loader(rank, epoch):
            opt.zero_grad()
            ((model(x.to(rank)) - y.to(rank)) ** 2).mean().backward()
            opt.step()
        save_checkpoint(model, opt, epoch)

main()
