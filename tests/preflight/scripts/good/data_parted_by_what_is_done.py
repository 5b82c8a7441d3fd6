"""Whatever the names: each rank gets files, rows or a seed of its own."""

import os
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, Dataset, Subset


class Chunk(Dataset):
    def __init__(self, files):
        self.x = np.concatenate([np.load(file) for file in files])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index]


def part_of(items, r, w):
    each = len(items) // w
    first = r * each
    return items[first : min(first + each, len(items))]


r, w = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())


def fit(source):
    for _ in range(2):
        for batch in DataLoader(source, batch_size=8, shuffle=True):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


files = sorted(Path("chunks").glob("*.npy"))
rows = torch.load("rows.pt")
fit(Chunk(files[r::w]))
fit(Chunk(part_of(files, r, w)))
fit(Chunk([files[r]]))
fit(Chunk(islice(files, r, None, w)))
fit(Chunk(sorted(Path(f"chunks-{r}").iterdir())))
fit(Subset(rows, range(r, len(rows), w)))
fit(rows.chunk(w)[r])
