# target: capability=8.0 processes=4
"""The model has a name beside that of its wrapper; the wrapper still waits for all ranks."""

import os

import torch
import torch.distributed as dist
import torchvision


@torch.no_grad()
def evaluate(net):
    return net(torch.zeros(2, 3, 64, 64).cuda()).mean().item()  # expect: R404 warning


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
network = torchvision.models.resnet18().cuda()
wrapper = torch.nn.parallel.DistributedDataParallel(network)
without = wrapper.module
if dist.get_rank() == 0:
    print(evaluate(network), evaluate(without), evaluate(wrapper))
    torch.save(without.state_dict(), "model.pt")
