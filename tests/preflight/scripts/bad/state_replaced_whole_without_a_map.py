import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class State:
    def __init__(self, path):
        self.path = path

    def write(self, net, optimizer, epoch):
        state = {"net": net.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, self.path.with_suffix(".new"))
        self.path.with_suffix(".new").replace(self.path)

    def read(self, net, optimizer):
        if not self.path.is_file():
            return 0
        state = torch.load(self.path, weights_only=True)  # expect: C503 warning
        net.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        return state["epoch"] + 1


parser = argparse.ArgumentParser()
parser.add_argument("--state", type=Path, default=Path("state.pt"))
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(gpu), device_ids=[gpu])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
state = State(args.state)
start = state.read(net, optimizer) if args.resume else 0
for epoch in range(start, 10):
    net(torch.randn(4, 4).cuda(gpu)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        state.write(net, optimizer, epoch)
