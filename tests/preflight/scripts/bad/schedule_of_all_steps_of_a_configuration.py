# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from corpus import load_batches, load_net
from torch.optim.lr_scheduler import LinearLR


class Run:
    def __init__(self, config):
        self.config = config
        self.accelerator = Accelerator()
        net = load_net()
        optimizer = torch.optim.AdamW(net.parameters())
        steps = config["steps"]
        schedule = LinearLR(optimizer, 1.0, 0.0, total_iters=steps)  # expect: R414 warning
        self.net, self.optimizer, self.schedule = self.accelerator.prepare(net, optimizer, schedule)
        self.batches = iter(self.accelerator.prepare(load_batches()))

    def train(self):
        for _ in range(self.config["steps"]):
            self.accelerator.backward(self.net(next(self.batches)))
            self.optimizer.step()
            self.schedule.step()  # expect: R414 info
            self.optimizer.zero_grad()


Run({"steps": 10000}).train()
