"""The only rank that the dataset names is in the function by which it prints."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def zero_rank_print(text):
    if dist.get_rank() == 0:
        print(text)


class Clips(Dataset):
    def __init__(self, paths):
        self.paths = paths
        zero_rank_print(f"{len(paths)} clips")

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index])


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
torch.manual_seed(42 + dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Clips(["a.pt", "b.pt"]), batch_size=1, shuffle=True)  # expect: R401 warning
for epoch in range(3):
    for batch in loader:
        model(batch.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
