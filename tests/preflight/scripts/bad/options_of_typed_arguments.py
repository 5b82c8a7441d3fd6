# target: processes=4
import torch
from tap import Tap


class Options(Tap):
    device: str = "cuda:0"  # expect: D201 error


def read():
    options = Options(explicit_bool=True).parse_args(known_only=True)
    options.note = "read"
    return options


model = torch.nn.Linear(2, 2).to(read().device)
