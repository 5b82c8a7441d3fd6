# target: capability=8.0 processes=2
import os
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
    opt = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    for i in range(10):
        opt.zero_grad()
        model(torch.randn(8, 4).cuda()).mean().backward()
        opt.step()
    if rank == 0:
        opt.consolidate_state_dict(to=0)  # expect: R404 error
        torch.save({"m": model.module.state_dict(), "o": opt.state_dict()}, "z.pt")
    dist.barrier()
    dist.destroy_process_group()


main()
