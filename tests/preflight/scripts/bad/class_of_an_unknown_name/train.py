# target: capability=8.0 processes=4
import argparse
import importlib
import os

import torch
import torch.distributed as dist


def build(name):
    module = importlib.import_module(f"trainers.{name}_trainer")
    return getattr(module, f"{name.title()}Trainer")()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", required=True)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    build(args.trainer).train([torch.ones(1, 4)])


if __name__ == "__main__":
    main()
