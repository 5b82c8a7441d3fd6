import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def save(net):
    net.cpu()
    state = net.state_dict()
    if dist.get_rank() == 0:
        torch.save(state, "last.pt")


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.Linear(8, 1)
net.load_state_dict(torch.load("pretrained.pt"))  # of another file than the states by their keys
model = DistributedDataParallel(net.cuda())
model(torch.ones(4, 8).cuda()).sum().backward()
if dist.get_rank() == 0:
    state = {"model": model.state_dict(), "epoch": 1}
    torch.save(state, "latest.pt")
save(net)
dist.barrier()
net.load_state_dict(torch.load("last.pt"))
# target: capability=8.0 processes=4
