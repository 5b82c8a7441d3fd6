"""A config that options fill on some paths only holds the rank that the script puts into it afterwards."""

import argparse
import os

import torch
from yacs.config import CfgNode

defaults = CfgNode()
defaults.LOCAL_RANK = 0


def update_config(config: CfgNode, args: argparse.Namespace) -> None:
    if args.opts:
        config.TAG = args.opts
    if args.tag:
        config["TAG"] = args.tag
    config.LOCAL_RANK = int(os.environ["LOCAL_RANK"])


parser = argparse.ArgumentParser()
parser.add_argument("--opts")
parser.add_argument("--tag")
args = parser.parse_args()
config = defaults.clone()
update_config(config, args)
torch.cuda.set_device(config.LOCAL_RANK)
os.environ["WORLD_SIZE"] = str(int(os.environ.get("WORLD_SIZE", 1)))
torch.distributed.init_process_group("nccl")
