"""The guard of one GPU returns early; what comes after it is for several."""
# target: capability=8.0 processes=4

import torch


def place(rank):
    if torch.cuda.device_count() == 1:
        torch.cuda.set_device(0)
        return
    torch.cuda.set_device(2)  # expect: D201 error


place(1)
