"""A folder that is made by a method of its path: of all ranks, by rank, of rank 0, behind a question."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--name")
args = parser.parse_args()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Path("before").mkdir()  # expect: R405 warning
os.makedirs("kept", exist_ok=True)
if os.environ["RANK"] == "0":
    os.makedirs("of one")
dist.init_process_group("nccl")
Path("runs").mkdir(parents=True)  # expect: R405 warning
(Path("runs") / args.name).mkdir()  # expect: R405 warning
(Path(args.name) / "logs").mkdir(parents=True, exist_ok=True)
(Path("runs") / f"{dist.get_rank()}").mkdir()
if dist.get_rank() == 0:
    Path("models").mkdir()
try:
    Path("parts").mkdir()  # expect: R405 warning
except KeyboardInterrupt:
    print("stopped")
try:
    Path("kept").mkdir()
except FileExistsError:
    print("kept")
if not Path("cache").exists():
    Path("cache").mkdir()
