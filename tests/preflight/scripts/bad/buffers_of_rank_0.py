# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), norm)

    def forward(self, batch):
        return self.layers(batch)


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    return [model(batch).mean() for batch in batches]  # expect: R404 warning


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = Net(nn.BatchNorm2d(8)).cuda()
model = DDP(model)
resnet = DDP(torchvision.models.resnet50().cuda())
still = DDP(torchvision.models.resnet18().cuda(), broadcast_buffers=False)
without = DDP(Net(nn.GroupNorm(2, 8)).cuda())
if dist.get_rank() == 0:
    evaluate(model, range(3))
    print(resnet(1))  # expect: R404 warning
    print(still(1), without(1))
    torch.save(model.module.state_dict(), "model.pt")
