# target: capability=8.0 processes=4
"""A class of the script's own that is a DataParallel."""
import torch
from torch import nn


class Passing(nn.DataParallel):
    def __getattr__(self, name):
        return getattr(super().__getattr__("module"), name)


model = Passing(nn.Linear(4, 4))  # expect: D206 error
