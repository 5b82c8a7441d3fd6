# target: capability=8.0 processes=4 args=fit,--half
import argparse

import torch


def fit(args):
    model = torch.nn.Linear(4, 4).cuda(args.gpu)
    if args.half:
        model.half()  # expect: P102 error
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in range(3):
        model(batch).sum().backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(dest="command")
    trainer = commands.add_parser("fit")
    trainer.add_argument("--gpu", default=None)
    trainer.add_argument("--half", action="store_true")
    tester = commands.add_parser("test")
    tester.add_argument("--gpu", default="cuda:0")
    args = parser.parse_args()
    if args.command == "fit":
        fit(args)
    elif args.command == "test":
        print(torch.zeros(1).to(args.gpu))


main()
