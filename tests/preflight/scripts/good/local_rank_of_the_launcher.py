# target: capability=8.0 processes=4
"""`--local_rank` comes from the launcher: the branch for -1 runs in no launch."""
import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
model = torch.nn.Linear(4, 4)
if args.local_rank == -1:
    device = torch.device("cuda:0")
    model = torch.nn.DataParallel(model)
else:
    torch.cuda.set_device(args.local_rank)
    device = torch.device("cuda", args.local_rank)
model.to(device)
