# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torch.nn.Linear(16, 4).cuda())
sharded = FSDP(torch.nn.Linear(16, 4).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.SGD(sharded.parameters(), lr=0.1)
samples = dataset()
sampler = DistributedSampler(samples)
loader = DataLoader(samples, batch_size=8, sampler=sampler)
cost = torch.nn.functional.cross_entropy
for epoch in range(3):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        model.require_backward_grad_sync = step % 4 == 3
        (cost(model(x.cuda()), y.cuda()) / 4).backward()
        loss = cost(sharded(x.cuda()), y.cuda()) / 4
        if step % 4 != 3:
            with sharded.no_sync():  # FSDP asks it in backward()
                loss.backward()
            with model.no_sync():
                loss = cost(model(x.cuda()), y.cuda()) / 4
                loss.backward()
            continue
        loss.backward()
        for each in (optimizer, other):
            each.step()
            each.zero_grad()
        model.require_backward_grad_sync = False  # for the next turn
