# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
model = torchvision.models.resnet18(num_classes=10)
model.cuda(gpu)
model = DDP(model, device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 3, 32, 32).cuda(gpu)).sum().backward()
optimizer.step()
