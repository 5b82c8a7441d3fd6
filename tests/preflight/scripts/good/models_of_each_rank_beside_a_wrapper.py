import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


class Both(torch.nn.Module):
    def __init__(self, body, head, deep):
        super().__init__()
        self.body = body
        self.head = head if deep else None

    def forward(self, batch):
        return self.head(self.body(batch)) if self.head else self.body(batch)


def endless(loader):
    while True:
        yield from loader


def importance(model, loader):
    found = [torch.zeros_like(weights) for weights in model.parameters()]
    for batch in loader:
        model(batch[0].cuda()).sum().backward()
        for total, weights in zip(found, model.parameters(), strict=True):
            total += weights.grad**2
    return found


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
body, head = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 4).cuda()
model = DDP(Both(body, head, "DEEP" in os.environ), device_ids=[local_rank])
classes = torch.nn.Linear(4, 100 + dist.get_rank()).cuda()
torch.manual_seed(dist.get_rank())
data = TensorDataset(torch.zeros(64, 4))
print(importance(model.module, DataLoader(data, batch_size=8)))
every = [torch.optim.AdamW(part.parameters()) for part in (body, head, classes)]
of_body, of_head, of_classes = every
batches = endless(DataLoader(data, batch_size=8, shuffle=True))
for _ in range(1000):
    (batch,) = next(batches)
    classes(model(batch.cuda())).sum().backward()
    of_body.step()
    of_head.step()
    of_classes.step()
    probe = torch.nn.Linear(4, 2).cuda()
    steps_of_probe = torch.optim.SGD(probe.parameters())
    for _ in range(5):
        probe(model(batch.cuda()).detach()).sum().backward()
        steps_of_probe.step()
