# target: processes=4 capability=8.0
import os

import torch
from timm.utils import NativeScaler
from torch.utils.data import DataLoader, RandomSampler
from torchvision.datasets import FakeData


def sampler_of(data, kind):
    return RandomSampler(data) if kind == "random" else RandomSampler(data, replacement=True)


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loss_scaler = NativeScaler()
data = FakeData()
loader = DataLoader(data, sampler=sampler_of(data, os.environ.get("DRAW")))  # expect: R401 warning
for epoch in range(3):
    for x, y in loader:
        loss_scaler(model(x.cuda()).sum(), optimizer, clip_grad=1.0, parameters=model.parameters())
        optimizer.zero_grad()
