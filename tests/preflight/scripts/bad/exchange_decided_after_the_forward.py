# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(torch.nn.Linear(16, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = dataset()
sampler = DistributedSampler(samples, shuffle=False)
loader = iter(DataLoader(samples, batch_size=8, sampler=sampler))
parts = 4
for step in range(1000):
    for part in range(parts):
        x, y = next(loader)
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()) / parts
        model.require_backward_grad_sync = part == parts - 1  # expect: R415 warning
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
