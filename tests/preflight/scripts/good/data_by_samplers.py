import argparse
import os

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--alone", action="store_true")
args = parser.parse_args()
rank = int(os.environ.get("LOCAL_RANK", -1))
several = rank != -1
if several:
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(rank)
data = TensorDataset(torch.zeros(64, 4))
sampler = DistributedSampler(data) if settings.several else None
loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
if settings.several:
    other = DataLoader(data, batch_sampler=BatchSampler(DistributedSampler(data, shuffle=False), 8, drop_last=False))
else:
    other = DataLoader(data, batch_size=8, shuffle=True)
test_loader = DataLoader(data, batch_size=8)
model = torch.nn.Linear(4, 4).cuda()
if several:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    if sampler is not None:
        sampler.set_epoch(epoch)
    for source in (loader, other):
        for batch in source:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    print(sum(model(batch).sum() for batch in test_loader))
