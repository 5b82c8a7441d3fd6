# target: capability=8.0 processes=4
import argparse

import torch


def finetune(args):
    model = torch.nn.Linear(4, 4).to("cuda:0")  # expect: D201 error
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    model(torch.ones(4, 4).to("cuda:0")).sum().backward()  # expect: D201 error
    optimizer.step()


def demo(args):
    print(torch.nn.Linear(4, 4).to("cuda:0")(torch.ones(4, 4).to("cuda:0")))


COMMANDS = {"finetune": finetune, "demo": demo}
parser = argparse.ArgumentParser()
parser.add_argument("command")
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
COMMANDS[args.command](args)
