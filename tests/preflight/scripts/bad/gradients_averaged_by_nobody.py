# target: capability=8.0 processes=4
"""What would average the gradients is never called; a broadcast at the start is no exchange."""

import os

import torch
import torch.distributed as dist


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda()
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.Adam(model.parameters())
for batch in torch.load("batches.pt"):
    model(batch.cuda()).sum().backward()
    optimizer.step()  # expect: R406 warning
