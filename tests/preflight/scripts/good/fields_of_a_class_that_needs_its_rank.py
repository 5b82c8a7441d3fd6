# target: capability=8.0 processes=2
import argparse
import os
from dataclasses import dataclass, field, fields

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


@dataclass
class Config:
    lr: float = 0.1
    device: torch.device = field(default_factory=lambda: torch.device("cuda", torch.cuda.current_device()))

    def __post_init__(self):
        self.noise = torch.zeros(4, device="cuda")
        dist.barrier()


parser = argparse.ArgumentParser()
names = [each.name for each in fields(Config) if each.init]
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
config = Config(lr=args.lr)
data = torch.utils.data.TensorDataset(torch.ones(64, 4))
model = DDP(torch.nn.Linear(4, 4).to(config.device))
optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
sampler = DistributedSampler(data)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(data, batch_size=4, sampler=sampler, num_workers=2):
        model(batch.to(config.device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
