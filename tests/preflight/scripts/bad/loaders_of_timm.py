# target: capability=8.0 processes=4
"""timm's create_loader without distributed=True, with it, shuffled alike; its reduce_tensor on rank 0."""

import os

import timm
import torch
import torch.distributed as dist
from timm.data import create_dataset, create_loader
from timm.utils import reduce_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(timm.create_model("resnet50").cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = torch.nn.CrossEntropyLoss()
whole = create_loader(create_dataset("", "data"), 224, 64, is_training=True)  # expect: R401 warning
parts = create_loader(create_dataset("", "data"), 224, 64, True, distributed=True)  # expect: R403 warning
for epoch in range(3):
    for loader in (whole, parts):
        for x, y in loader:
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        print(reduce_tensor(loss.detach(), 4))  # expect: R404 error
