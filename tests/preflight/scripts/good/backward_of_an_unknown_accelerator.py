# target: processes=4 capability=8.0
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = accelerator.prepare(model, optimizer)


class Trainer:
    def __init__(self, parts):
        self.accelerator = parts["accelerator"]

    def train(self):
        for _ in range(10):
            self.accelerator.backward(model(torch.ones(4, 4)).sum())
            optimizer.step()
            optimizer.zero_grad()


def parts(name):
    return {name: accelerator}


Trainer(parts(open("name.txt").read())).train()
