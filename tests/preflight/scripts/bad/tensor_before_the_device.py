# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator


def warm_up():
    return torch.zeros(1).cuda()  # expect: D202 error


warm_up()
accelerator = Accelerator()
