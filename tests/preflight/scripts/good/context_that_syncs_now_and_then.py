# target: capability=8.0 processes=2
import contextlib
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@contextlib.contextmanager
def sync_if(model, sync):
    if sync:
        yield
    else:
        with model.no_sync():
            yield


@contextlib.contextmanager
def sync_if2(model, sync):
    if not sync:
        with model.no_sync():
            yield
        return
    yield


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(100):
        with sync_if(model, i % 4 == 3):
            model(torch.randn(8, 4).cuda()).pow(2).mean().backward()
        with sync_if2(model, i % 4 == 3):
            model(torch.randn(8, 4).cuda()).pow(2).mean().backward()
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()
    dist.destroy_process_group()


main()
