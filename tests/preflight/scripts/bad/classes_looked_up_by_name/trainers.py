import torch.distributed as dist
from registry import LOOPS, OWN, TRAINERS


@OWN.register()
class Own:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning


@TRAINERS.register()
class Registered:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning


@TRAINERS.register
class Bare:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning


@LOOPS.register_module(name="loop")
class Loop:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning


class Configured:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning


class Named:
    def __init__(self, steps=3):
        self.steps = steps

    def train(self, x):
        if dist.get_rank() == 0:
            dist.all_reduce(x)  # expect: R404 warning
