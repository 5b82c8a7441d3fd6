import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
accumulate, once, epochs = 4, 1, 3
sampler = DistributedSampler(dataset())
loader = DataLoader(dataset(), batch_size=8, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
of_updates = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=epochs * len(loader) // accumulate)
of_batches = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=epochs * len(loader))
of_each = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=epochs * len(loader) // once)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        if (step + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % accumulate == 0:
            of_updates.step()
        of_batches.step()
    for step, (x, y) in enumerate(loader):  # what leaves a turn comes to no step of the schedule
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        if (step + 1) % accumulate != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()
        of_updates.step()
    for step, (x, y) in enumerate(loader):
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        if step % once == 0:
            optimizer.step()
            optimizer.zero_grad()
        of_each.step()
# target: capability=8.0 processes=4
