# target: capability=8.0 processes=2
from functools import singledispatchmethod

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


class Task:
    def __init__(self):
        self.rank = dist.get_rank()

    @singledispatchmethod
    def train(self, batch):
        raise TypeError(batch)

    @train.register
    def _(self, batch: list):
        if self.rank == 0:
            dist.barrier()  # expect: R404 error

    @train.register(dict)
    def _(self, batch):
        self.train(list(batch.values()))


task = Task()
task.train({"x": torch.ones(4)})
task.train([torch.ones(4)])
