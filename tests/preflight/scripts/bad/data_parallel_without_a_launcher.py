# target: processes=4 capability=8.0
import argparse

import torch

from engines import init_dist

parser = argparse.ArgumentParser()
parser.add_argument("--launcher", choices=["none", "pytorch"], default="none")
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
if args.launcher == "none":
    args.distributed = False
else:
    args.distributed = True
    init_dist(args.launcher)
model = torch.nn.Linear(4, 4).cuda()
if args.distributed:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.local_rank])
else:
    model = torch.nn.DataParallel(model)  # expect: D206 warning
