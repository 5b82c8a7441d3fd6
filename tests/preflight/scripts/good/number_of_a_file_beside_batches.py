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
steps = 0
if os.path.isdir("saved"):
    files = sorted(os.listdir("saved"), key=lambda x: int(x.split(".")[0]))
    steps = int([y for y in files if y.endswith(".pt")][-1].split(".")[0])
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        x = x.cuda()
        loss = torch.nn.functional.cross_entropy(model(x), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        if steps % 100 == 0:
            dist.all_reduce(loss.detach())
