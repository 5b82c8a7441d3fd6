# target: capability=8.0 processes=4
"""What one mode does on a GPU comes before no device of the other, and a rank may be looked up in a table."""

import argparse
import os

import torch
from torch import nn


class Mesh:
    def __init__(self) -> None:
        self.ranks = dict(item.split(":") for item in os.environ["MESH"].split())

    def get_local_rank(self, mode: str) -> int:
        return self.ranks[mode]


def generate() -> None:
    nn.Linear(4, 4).cuda()


parser = argparse.ArgumentParser()
parser.add_argument("--mode", required=True, choices=["fit", "generate"])
args = parser.parse_args()
if args.mode == "generate":
    generate()
else:
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = Mesh()
    part = mesh.get_local_rank("data")
    torch.save(nn.Linear(4, 4).state_dict(), f"out/shard_{part}.bin")
