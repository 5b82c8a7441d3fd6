import argparse
import json
import os

import torch
import torch.distributed as dist

SETTINGS = {"lr": 0.1, "device": "cuda:0"}  # expect: D201 warning


class Mover:
    def __init__(self, settings):
        self.device = torch.device(settings.get("device", "cpu"))

    def __call__(self, batch):
        return batch.to(self.device)


parser = argparse.ArgumentParser()
parser.add_argument("--settings")
args = parser.parse_args()
settings = dict(SETTINGS)
if args.settings:
    with open(args.settings) as file:
        settings.update(json.load(file))
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
model = torch.nn.Linear(4, 4).cuda(gpu)
ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
move = Mover(settings)
optimizer = torch.optim.SGD(ddp.parameters(), settings["lr"])
for _ in range(10):
    ddp(move(torch.randn(4, 4))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
