# target: processes=4
import argparse

import torch
import torch.distributed as dist


def options():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--url", default="tcp://localhost:29111")
    parser.set_defaults(device="cuda:1")  # expect: D201 error
    return parser


def main(args):
    dist.init_process_group("nccl", init_method=args.url)  # expect: D207 warning
    torch.cuda.set_device(args.device)


if __name__ == "__main__":
    main(argparse.ArgumentParser("training", parents=[options()]).parse_args())
