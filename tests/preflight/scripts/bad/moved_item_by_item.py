# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch import nn


def to_device(obj, device):
    if torch.is_tensor(obj):
        return obj.to(device)
    if isinstance(obj, dict):
        return {k: to_device(v, device) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(to_device(v, device) for v in obj)
    return obj


class Trainer:
    device = "cuda:0" if torch.cuda.is_available() else "cpu"  # expect: D201 error

    def __init__(self, net):
        self.acc = Accelerator()
        self.net, self.opt = self.acc.prepare(net, torch.optim.SGD(net.parameters(), 0.1))

    def run(self, data):
        for batch in data:
            batch = to_device(batch, self.device)
            loss = nn.functional.cross_entropy(self.net(batch["x"]), batch["y"])
            self.acc.backward(loss)
            self.opt.step()
            self.opt.zero_grad()


Trainer(nn.Linear(4, 2)).run([{"x": torch.randn(3, 4), "y": torch.zeros(3, dtype=torch.long)}])
