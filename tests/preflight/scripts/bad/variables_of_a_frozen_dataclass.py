# target: capability=8.0 processes=4
import os
from dataclasses import dataclass, asdict


@dataclass(frozen=True)
class Env:
    CUDA_DEVICE_ORDER: str = "PCI_BUS_ID"
    CUDA_VISIBLE_DEVICES: str = "0,1"
    NCCL_P2P_DISABLE: str = "1"


for _k, _v in asdict(Env()).items():
    os.environ[_k] = _v  # expect: D203 error

import torch
from accelerate import Accelerator


def main():
    acc = Accelerator()
    net = torch.nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net, opt = acc.prepare(net, opt)
    for _ in range(3):
        acc.backward(net(torch.ones(1, 2, device=acc.device)).sum())
        opt.step()
        opt.zero_grad()


main()
