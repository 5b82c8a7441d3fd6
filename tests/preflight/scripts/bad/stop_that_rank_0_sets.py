# target: capability=8.0 processes=4
"""What only rank 0 sets, behind a return of the others or in a method that it calls, differs with the rank."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Patience:
    wait = 0

    def on_epoch_end(self, trainer):
        if trainer.rank != 0:
            return
        self.count(trainer)

    def count(self, trainer):
        self.wait += 1
        if self.wait >= 5:
            trainer.should_stop = True


class Plateau:
    def __init__(self):
        self.seen = []

    def reached(self, loss):
        if dist.get_rank() != 0:
            return False
        self.seen.append(loss)
        return min(self.seen) < loss


class Trainer:
    def __init__(self, callbacks):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.callbacks = callbacks
        self.should_stop = False

    def fit(self):
        for _ in range(100):
            self.model(torch.ones(4, 4)).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            for callback in self.callbacks:
                callback.on_epoch_end(self)
            if self.should_stop:
                break  # expect: R404 warning


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
Trainer([Patience()]).fit()
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
plateau, optimizer = Plateau(), torch.optim.SGD(model.parameters(), 0.1)
for _ in range(100):
    loss = model(torch.ones(4, 4)).sum()
    loss.backward()
    optimizer.step()
    if plateau.reached(loss.item()):
        break  # expect: R404 warning
