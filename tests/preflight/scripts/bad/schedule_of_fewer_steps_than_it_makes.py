import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
accumulate, epochs = 4, 3
sampler = DistributedSampler(dataset())
loader = DataLoader(dataset(), batch_size=8, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
updates = len(loader) // accumulate * epochs
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        last = (step + 1) % accumulate == 0
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()  # expect: R414 warning
# target: capability=8.0 processes=4
