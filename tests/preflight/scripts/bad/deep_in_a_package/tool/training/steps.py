import torch


def place():
    torch.cuda.set_device(0)  # expect: D201 error
