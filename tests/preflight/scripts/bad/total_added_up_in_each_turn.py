import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset


def validate(model, loader):
    total = torch.zeros(1, device="cuda")
    with torch.no_grad():
        for x, y in loader:
            total += (model(x.cuda()) - y.cuda()).abs().sum()
            if dist.is_initialized():
                dist.all_reduce(total)  # expect: R411 warning
    return total.item()


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
loader = DataLoader(dataset(), batch_size=8, sampler=DistributedSampler(dataset(), shuffle=False))
print(validate(DistributedDataParallel(torch.nn.Linear(8, 1).cuda()).eval(), loader))
# target: capability=8.0 processes=4
