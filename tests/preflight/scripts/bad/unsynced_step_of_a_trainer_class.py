"""A method says when to exchange, and another one asks it the wrong way round."""

import os
import argparse
import contextlib
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


class Trainer:
    def __init__(self, args, model, opt, loader, sampler):
        self.args, self.model, self.opt, self.loader, self.sampler = args, model, opt, loader, sampler
        self.micro = 0

    def is_boundary(self):
        return (self.micro + 1) % self.args.accum == 0

    def sync_context(self):
        if self.is_boundary():
            return self.model.no_sync()  # expect: R415 warning
        return contextlib.nullcontext()

    def step(self, x, y):
        with self.sync_context():
            loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            (loss / self.args.accum).backward()
        if self.is_boundary():
            self.opt.step()
            self.opt.zero_grad()
        self.micro += 1

    def fit(self):
        for epoch in range(self.args.epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.step(x, y)


def main():
    args = parse()
    rank, local = setup()
    torch.manual_seed(0)
    model = DDP(Net().cuda(), device_ids=[local])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = Rows(args.data)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler, drop_last=True)
    Trainer(args, model, opt, loader, sampler).fit()


main()
