"""Text that names ranks and shards parts no data: only what is done with the rank does."""

import os

import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import CIFAR10


class Rows(Dataset):
    """Not sharded yet: each rank of the world reads all rows of its node."""

    def __init__(self, path):
        self.rows = torch.load(path)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters())
print(f"data[rank::world_size] of rank * shard {local} of {dist.get_world_size()}")
for source in (Rows("rows.pt"), CIFAR10("data")):
    loader = DataLoader(source, batch_size=8, shuffle=True)  # expect: R401 warning
    for epoch in range(2):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
