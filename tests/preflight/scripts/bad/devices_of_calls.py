# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist

generator = torch.Generator(device="cuda")  # expect: D202 error
old = torch.load("old.pt", map_location="cuda")  # expect: D202 error
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.Linear(2, 2).cuda()
net.load_state_dict(torch.load("net.pt", map_location="cuda:0"))  # expect: D201 error
with torch.cuda.device(0):  # expect: D201 error
    net(torch.zeros(1, 2).cuda())
torch.set_default_device("cuda:1")  # expect: D201 error
