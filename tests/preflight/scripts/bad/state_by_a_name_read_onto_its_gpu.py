import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
if os.path.exists("latest.pt"):
    checkpoint = torch.load("latest.pt")  # expect: C503 warning
    model.load_state_dict(checkpoint["model"])
model(torch.ones(4, 8).cuda()).sum().backward()
if dist.get_rank() == 0:
    state = {"model": model.state_dict(), "epoch": 1}
    torch.save(state, "latest.pt")
# target: capability=8.0 processes=4
