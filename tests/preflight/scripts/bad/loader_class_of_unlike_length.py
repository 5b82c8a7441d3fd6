"""A class with __iter__ reads the rank's shards."""

import glob
import os
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import Dataset


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


class Feed:
    def __init__(self, shards, bs):
        self.shards, self.bs = shards, bs

    def __iter__(self):
        for s in self.shards:
            x = torch.load(s, map_location="cpu")
            for i in range(0, len(x), self.bs):
                yield x[i : i + self.bs, :-1], x[i : i + self.bs, -1].long()


class Run:
    def __init__(self, args):
        self.args = args
        self.rank, self.local = setup()
        self.model = DDP(Net().cuda(), device_ids=[self.local])
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        shards = sorted(glob.glob(args.data))
        self.feed = Feed(shards[self.rank :: dist.get_world_size()], 64)

    def epoch(self):
        for x, y in self.feed:  # expect: R404 warning
            loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


r = Run(parse())
for e in range(3):
    r.epoch()
