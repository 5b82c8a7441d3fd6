# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as NativeDDP

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(8, 1)
if os.path.exists("last.pt"):
    last = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(last["weights"])  # expect: C502 info
model = torch.compile(model.cuda())
model = NativeDDP(model)
model(torch.ones(4, 8).cuda()).sum().backward()
if dist.get_rank() == 0:
    torch.save({"weights": model.module.state_dict()}, "last.pt")  # expect: C502 warning
