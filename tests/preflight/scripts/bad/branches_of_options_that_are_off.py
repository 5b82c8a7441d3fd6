"""Faults in branches that a count, or an option of type bool, opens; the option is kept in a variable."""
# target: capability=8.0 processes=4

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--num_gpus", type=int, default=1)
parser.add_argument("--multi", type=bool, default=False)
parser.add_argument("--verbose", action="store_true")
options = parser.parse_args()


def place(distributed):
    if distributed:
        torch.distributed.init_process_group("nccl")
        torch.cuda.set_device(0)  # expect: D201 warning
    else:
        print("one GPU")


place(options.multi)
several = not options.num_gpus == 1
if several:
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # expect: D203 warning
if options.verbose:
    print(options)
