import torch


def nothing():
    raise ValueError


def half():
    return torch.nn.Linear(2, 2).cuda().half()  # expect: P102 error
