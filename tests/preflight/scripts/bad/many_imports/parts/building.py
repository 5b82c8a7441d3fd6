import torch


def build():
    return torch.nn.Linear(2, 2).half()  # expect: P101 error
