# target: capability=8.0 processes=2
import os
import portalocker
import torch
import torch.distributed as dist
from filelock import FileLock
from torch.nn.parallel import DistributedDataParallel as DDP


def make(path):
    if not os.path.exists(path):
        torch.save(torch.randn(10), path)


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    lock = FileLock("x.lock")
    with lock:
        make("x.pt")
    with portalocker.Lock("y.lock", timeout=60):
        torch.save(torch.ones(1), "y.pt")
    x = torch.load("x.pt")
    model = DDP(torch.nn.Linear(10, 1).cuda(), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        opt.zero_grad()
        model(x.cuda()).sum().backward()
        opt.step()
    dist.destroy_process_group()


main()
