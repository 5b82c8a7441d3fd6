# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DDP(torchvision.models.resnet50().cuda())
alone = model.module
if dist.get_rank() == 0:
    print(alone(torch.ones(1, 3, 64, 64).cuda()))
