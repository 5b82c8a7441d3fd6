# target: capability=8.0 processes=2
import contextlib
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@contextlib.contextmanager
def quiet(model):
    with model.no_sync():
        yield


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        with quiet(model):
            model(torch.randn(8, 4).cuda()).pow(2).mean().backward()  # expect: R406 warning
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


main()
