import argparse

import torch


def common():
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--gpu", type=int, default=1)  # expect: D201 warning
    return parent


def show(args):
    print(args.path)


def fit(args):
    torch.cuda.set_device(args.gpu)
    model = torch.nn.Linear(4, 4).to(args.device)
    if args.half:
        model.half()  # expect: P102 warning
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in range(3):
        model(batch).sum().backward()
        optimizer.step()


parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
shower = commands.add_parser("show")
shower.add_argument("path")
shower.set_defaults(run=show)
fitter = commands.add_parser("fit", parents=[common()])
fitter.add_argument("--device", default="cuda:1")  # expect: D201 warning
fitter.add_argument("--half", action="store_true")
fitter.set_defaults(run=fit)
args = parser.parse_args()
args.run(args)
