# target: capability=8.0 processes=4
import argparse
import glob
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Part(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Mixture(Dataset):
    def __init__(self, datasets):
        self.datasets = datasets

    def __len__(self):
        return sum(map(len, self.datasets.values()))

    def __getitem__(self, index):
        return next(iter(self.datasets.values()))[index]


def load(folder):
    files = sorted(glob.glob(os.path.join(folder, "*.pt")))
    own = list(np.array_split(files, dist.get_world_size()))[dist.get_rank()]
    return torch.cat([torch.load(name, map_location="cpu") for name in own])


parser = argparse.ArgumentParser()
parser.add_argument("--train_data", nargs="+", default=[])
args = parser.parse_args()
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torch.nn.Linear(16, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
datasets = {}
for folder in args.train_data:
    datasets[folder] = Part(load(folder))
loader = DataLoader(Mixture(datasets), batch_size=8, shuffle=True)
for x in loader:
    model(x.cuda()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
