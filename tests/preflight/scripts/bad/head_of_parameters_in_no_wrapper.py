import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset


class Margin(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.ones(1, 10))

    def forward(self, x):
        return x @ self.kernel


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
sampler = DistributedSampler(dataset())
backbone = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
head = Margin().cuda()
of_backbone = torch.optim.SGD(backbone.parameters(), lr=0.1)
of_head = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(dataset(), batch_size=8, sampler=sampler):
        torch.nn.functional.cross_entropy(head(backbone(x.cuda())), y.cuda()).backward()
        of_backbone.step()
        of_head.step()  # expect: R406 warning
        of_backbone.zero_grad()
        of_head.zero_grad()
# target: capability=8.0 processes=4
