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


def main():
    args = parse()
    rank, local = setup()
    names = open("names.txt").read().split()
    import zlib

    tr = [n for n in names if zlib.crc32(n.encode()) % 10 != 0]
    data = torch.utils.data.TensorDataset(torch.rand(len(tr), 64), torch.zeros(len(tr)).long())
    model = DDP(Net().cuda(), device_ids=[local])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()


main()
