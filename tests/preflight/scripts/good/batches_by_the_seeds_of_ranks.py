import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Part(Dataset):
    def __init__(self, rank, ranks):
        self.numbers = range(rank, 100, ranks)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, number):
        return torch.zeros(4)


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, number):
        return torch.zeros(4)


def endless(loader):
    while True:
        yield from loader


dist.init_process_group("nccl", device_id=torch.device("cuda"))
torch.manual_seed(42 + dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
batches = iter(DataLoader(Images(), batch_size=8, shuffle=True))
parts = DataLoader(Part(dist.get_rank(), dist.get_world_size()), batch_size=8, shuffle=True)
for step in range(3):
    model(next(batches)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    for batch in parts:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
