"""Rank 0 alone trains the model inside of DistributedDataParallel, which waits for no other rank."""

import os

import torch
import torch.distributed as dist
import torchvision

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torchvision.models.resnet18().cuda())
inside = model.module
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def evaluate(net):
    return net(torch.zeros(2, 3, 64, 64).cuda()).mean().item()


if dist.get_rank() == 0:
    for batch in torch.load("warm_up.pt"):
        model.module(batch.cuda()).sum().backward()
        optimizer.step()
    print(evaluate(inside), evaluate(model.module))
evaluate(model)
