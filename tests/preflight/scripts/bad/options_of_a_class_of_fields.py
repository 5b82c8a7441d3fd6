# target: capability=8.0 processes=2
import argparse
import os
from dataclasses import dataclass, fields

import torch


@dataclass
class Settings:
    lr: float = 0.1
    epochs: int = 3
    batch: int = 8
    seed: int = 0
    workers: int = 2
    width: int = 4
    device: str = "cuda:0"  # expect: D201 error


def settings():
    parser = argparse.ArgumentParser()
    for each in fields(Settings):
        parser.add_argument("--" + each.name, type=each.type, default=each.default)
    return Settings(**vars(parser.parse_args()))


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
chosen = settings()
torch.distributed.init_process_group("nccl")
model = torch.nn.Linear(chosen.width, 4).to(chosen.device)
