# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


class Collator:
    def __init__(self, rank):
        self.rank = rank

    def move(self, rows):
        return torch.stack(rows).to(f"cuda:{self.rank}")  # expect: D208 warning

    def __call__(self, rows):
        return self.move(rows)


dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
data = list(torch.randn(64, 8))
sampler = DistributedSampler(data)
loader = DataLoader(data, 8, sampler=sampler, collate_fn=Collator(rank), num_workers=4)
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[rank])
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for x in loader:
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
