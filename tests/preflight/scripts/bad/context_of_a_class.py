# target: capability=8.0 processes=2
from __future__ import annotations
import torch
import torch.distributed as dist
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))

    def forward(self, x: Tensor) -> Tensor:
        for l in self.layers:
            x = l(x).relu()
        return x


class Session:
    dtype = torch.bfloat16

    def __enter__(self):
        dist.init_process_group()
        self.local = dist.get_node_local_rank()
        torch.cuda.set_device(self.local)
        self.scaler = torch.amp.GradScaler()
        return self

    def __exit__(self, *exc):
        dist.destroy_process_group()

    def wrap(self, net):
        net = net.to(device=f"cuda:{self.local}", dtype=self.dtype)  # expect: P106 error
        return nn.parallel.DistributedDataParallel(net)


def main():
    with Session() as s:
        net = s.wrap(Mlp(8, 16, 4))
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(10):
            loss = net(torch.randn(4, 8, device="cuda", dtype=s.dtype)).sum()
            s.scaler.scale(loss).backward()
            s.scaler.step(opt)
            s.scaler.update()
            opt.zero_grad()


if __name__ == "__main__":
    main()
