import argparse, os
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
import torch.distributed as dist
from net import UNet
from data import Scans

def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--resume", default="", type=str)
    p.add_argument("--epochs", default=50, type=int)
    return p.parse_args()

def save(model, epoch, path):
    torch.save({"state_dict": model.state_dict(), "epoch": epoch}, path)

def main():
    args = parse()
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group(backend="nccl", init_method="env://")
    model = DistributedDataParallel(UNet().cuda(), device_ids=[rank])
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = 0
    if args.resume:
        state = torch.load(args.resume)  # expect: C503 warning
        model.load_state_dict(state["state_dict"])
        start = state["epoch"]
    ds = Scans()
    sampler = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=4, sampler=sampler)
    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            opt.zero_grad()
            loss = ((model(x.cuda()) - y.cuda()) ** 2).mean()
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            save(model, epoch, "ckpt.pth")

if __name__ == "__main__":
    main()
