import os
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Rows(Dataset):
    def __init__(self, path):
        self.x = torch.load(path, map_location="cpu")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i, :-1], self.x[i, -1].long()


class Net(nn.Module):
    def __init__(self, d=64, c=10):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.head = nn.Linear(d, c)

    def forward(self, x):
        return self.head(self.body(x))


def setup():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return dist.get_rank(), local


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--accum", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--data", default="rows.pt")
    p.add_argument("--out", default="net.pt")
    return p.parse_args()


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Linear(64, 1)

    def forward(self, x):
        return self.n(x)


def toggle(m, on):
    for p in m.parameters():
        p.requires_grad = on


def main():
    args = parse()
    rank, local = setup()
    net = Net().cuda()
    for p in net.body.parameters():
        p.requires_grad = False
    model = DDP(net, device_ids=[local])
    d = DDP(D().cuda(), device_ids=[local])
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    do = torch.optim.AdamW(d.parameters(), lr=args.lr)
    data = Rows(args.data)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            toggle(d, True)
            l = d(x.cuda()).mean()
            do.zero_grad()
            l.backward()
            do.step()
            toggle(d, False)
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()


main()
