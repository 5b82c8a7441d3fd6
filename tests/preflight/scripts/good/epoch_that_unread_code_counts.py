# target: capability=8.0 processes=2
import argparse

import torch
import unread_schedule
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
parser = argparse.ArgumentParser()
parser.add_argument("--epoch", type=int, default=0)
args = parser.parse_args()
data = TensorDataset(torch.zeros(64, 4))
sampler = DistributedSampler(data)
loader = DataLoader(data, sampler=sampler)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
while args.epoch < 3:
    sampler.set_epoch(args.epoch)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    unread_schedule.advance(args)
