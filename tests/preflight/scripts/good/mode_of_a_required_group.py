# target: capability=8.0 processes=4
"""One of --train, --test and --state is given: of a launch of ranks the one that trains."""

import argparse

import torch
from torch import nn


class LaneTrainer:
    def __init__(self) -> None:
        torch.distributed.init_process_group("nccl")
        torch.cuda.set_device(torch.distributed.get_rank() % torch.cuda.device_count())
        self.model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda())


class LaneTester:
    def __init__(self) -> None:
        self.device = torch.device("cuda:0")
        self.model = nn.Linear(4, 4).to(self.device)


parser = argparse.ArgumentParser()
modes = parser.add_mutually_exclusive_group(required=True)
modes.add_argument("--train", action="store_true")
modes.add_argument("--test", action="store_true")
modes.add_argument("--state", type=int)
args = parser.parse_args()
if not args.train:
    nn.Linear(4, 4).to("cuda:0")
for name, given in vars(args).items():
    if name in ("train", "test") and given:
        args.state = ("train", "test").index(name)
Runner = LaneTrainer if args.state == 0 else LaneTester
runner = Runner()
