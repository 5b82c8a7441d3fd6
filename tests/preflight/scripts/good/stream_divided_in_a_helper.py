"""A function that the dataset calls divides the files among all workers of all ranks."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def own(items):
    info = get_worker_info()
    worker, workers = (info.id, info.num_workers) if info else (0, 1)
    return items[dist.get_rank() * workers + worker :: dist.get_world_size() * workers]


class Lines(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for file in own(self.files):
            with open(file) as lines:
                for line in lines:
                    yield torch.tensor([float(each) for each in line.split()])


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(DataLoader(Lines(["a.txt", "b.txt"]), batch_size=4, num_workers=4))
for _ in range(100):
    optimizer.zero_grad()
    model(next(batches).cuda()).sum().backward()
    optimizer.step()
