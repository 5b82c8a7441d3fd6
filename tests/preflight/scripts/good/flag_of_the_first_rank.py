# target: capability=8.0 processes=4
"""A flag of the first rank, of an Accelerator that may be given, decides in another class; ranks may be none."""
import os

import torch
from accelerate import Accelerator


class Log:
    def __init__(self, folder, disable=False):
        self.disable = disable
        if self.disable:
            return
        os.mkdir(folder)


class Trainer:
    def __init__(self, accelerator):
        if isinstance(accelerator, Accelerator):
            self.accelerator = accelerator
        else:
            self.accelerator = Accelerator()
        self.log = Log("runs/new", disable=not self.accelerator.is_main_process)

    def fit(self, model, optimizer):
        model, optimizer = self.accelerator.prepare(model, optimizer)
        self.accelerator.backward(model(torch.randn(4, 8, device=self.accelerator.device)).mean())
        optimizer.step()


def train(accelerator):
    model = torch.nn.Linear(8, 8)
    Trainer(accelerator).fit(model, torch.optim.SGD(model.parameters(), lr=0.1))


def alone(world_size):
    if world_size == 0:
        return torch.nn.Linear(8, 8).to("cuda:0")
    return None
