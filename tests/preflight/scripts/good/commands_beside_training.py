# target: capability=8.0 processes=4
"""One function of a table runs: what only uses the model runs on one GPU, by hand."""

import argparse
import os

import torch


def demo(args):
    device = torch.device("cuda:0")
    print(torch.nn.Linear(4, 4).to(device)(torch.ones(4, 4, device=device)))


def train(args):
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    model(torch.ones(4, 4).cuda()).sum().backward()
    optimizer.step()


COMMANDS = {"train": train, "demo": demo}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    COMMANDS[args.command](args)
