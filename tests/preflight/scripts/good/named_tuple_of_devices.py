# target: capability=8.0 processes=4
import os
from typing import NamedTuple
import torch
import torch.distributed as dist


class Ctx(NamedTuple):
    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def main(self):
        return self.rank == 0

    @classmethod
    def create(cls):
        if "RANK" not in os.environ:
            return cls(torch.device("cuda:0"))
        dist.init_process_group("nccl")
        local = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local)
        return cls(torch.device("cuda", local), dist.get_rank(), dist.get_world_size())


def main():
    ctx = Ctx.create()
    net = torch.nn.Linear(2, 2).to(ctx.device)
    if ctx.world > 1:
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[ctx.device.index])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        net(torch.ones(1, 2, device=ctx.device)).sum().backward(); opt.step(); opt.zero_grad()


main()
