# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torch.nn.Linear(16, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = dataset()
sampler = DistributedSampler(samples)
loader = DataLoader(samples, batch_size=8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / 4
        if step % 4 != 3:
            with model.no_sync():  # expect: R415 info
                loss.backward()
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
