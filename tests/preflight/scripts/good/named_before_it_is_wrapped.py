# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
import torchvision

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torchvision.models.resnet50().cuda()
alone = model
model = torch.nn.parallel.DistributedDataParallel(model)
if dist.get_rank() == 0:
    print(alone(torch.ones(1, 3, 64, 64).cuda()))
