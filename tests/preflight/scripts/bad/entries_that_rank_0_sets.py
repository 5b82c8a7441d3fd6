# target: capability=8.0 processes=4
"""What a dict holds differs with the rank where rank 0 alone sets an entry, and keeps differing."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STATE = {"rank": 0, "saves": False}


def begin():
    dist.init_process_group("nccl")
    STATE["rank"] = dist.get_rank()
    torch.cuda.set_device(STATE["rank"] % torch.cuda.device_count())
    if STATE["rank"] == 0:
        STATE["saves"] = True
    STATE["begun"] = True


begin()
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(9):
    model(torch.randn(4, 2).cuda()).sum().backward()
    optimizer.step()
if STATE["begun"]:
    dist.barrier()
if STATE["saves"]:
    torch.save(model.module.state_dict(), "model.pt")
    dist.barrier()  # expect: R404 error
