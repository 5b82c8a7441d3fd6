# target: capability=8.0 processes=4
"""The device of an option gives way to the rank's, which a helper returns."""
import argparse
import os

import torch
import torch.distributed as dist


def start() -> int:
    if int(os.environ.get("RANK", -1)) == -1:
        return 0
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return int(os.environ["LOCAL_RANK"])


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()
local_rank = start()
if dist.is_initialized():
    args.device = f"cuda:{local_rank}"
model = torch.nn.Linear(4, 4).to(args.device)
batch = torch.zeros(4, device=args.device)
