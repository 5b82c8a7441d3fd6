# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from images import load_images, load_net
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
net = DistributedDataParallel(load_net().cuda(), device_ids=[local_rank])
optimizer = torch.optim.AdamW(net.parameters())
for epoch in range(20):
    for x, y in load_images(dist.get_rank(), dist.get_world_size()):
        loss = torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net = net.module  # expect: R406 warning
    if dist.get_rank() == 0:
        torch.save(net.state_dict(), "net.pt")
