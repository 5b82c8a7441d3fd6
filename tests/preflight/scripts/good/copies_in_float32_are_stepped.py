# target: capability=8.0 processes=4
"""Who casts the model steps float32 copies; one GPU that a rank sees is its GPU 0."""

import os

import torch
import torch.distributed as dist
import yaml


def to_half(layer):
    if isinstance(layer, torch.nn.Linear):
        layer.weight.data = layer.weight.data.half()


def make_copies(parameters):
    return [torch.nn.Parameter(torch.stack([item.detach().float() for item in parameters]))]


def place():
    device_count = torch.cuda.device_count()
    if device_count == 1:
        torch.cuda.set_device(0)
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


settings = yaml.safe_load(open(os.environ["SETTINGS"]))
dist.init_process_group("nccl")
place()
model = torch.nn.Linear(3, 3).cuda()
stepped = list(model.parameters())
if settings["half"]:
    stepped = make_copies(stepped)
    model.apply(to_half)
optimizer = torch.optim.AdamW(stepped, lr=1e-4)
ranks = torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
for _ in range(3):
    ranks(torch.ones(3).cuda()).sum().backward()
    optimizer.step()
