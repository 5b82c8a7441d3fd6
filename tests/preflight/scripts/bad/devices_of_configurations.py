# target: capability=8.0 processes=4
from dataclasses import dataclass
from enum import Enum

import pyrallis
import torch
import tyro
from easydict import EasyDict
from ml_collections import ConfigDict


@dataclass
class Args:
    device: str = "cuda:0"  # expect: D201 error


@dataclass
class Settings:
    device: str = "cuda:1"  # expect: D201 error


class Entries(dict):
    __getattr__ = dict.__getitem__


class Name(Enum):
    GPU = "cuda:2"  # expect: D201 error


def config():
    made = ConfigDict()
    made.device = "cuda:3"  # expect: D201 error
    return made


@pyrallis.wrap()
def train(settings: Settings):
    return torch.nn.Linear(2, 2).to(settings.device)


nested = EasyDict({"train": {"device": "cuda:4"}})  # expect: D201 error
entries = Entries(device="cuda:5")  # expect: D201 error
for device in (tyro.cli(Args).device, Name.GPU.value, config().device, nested.train.device, entries.device):
    net = torch.nn.Linear(2, 2).to(device)
train()
