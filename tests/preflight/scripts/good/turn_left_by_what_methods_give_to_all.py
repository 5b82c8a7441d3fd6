import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from data import dataset


class Trainer:
    def __init__(self):
        self.model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.sampler = DistributedSampler(dataset())
        self.loader = DataLoader(dataset(), batch_size=8, sampler=self.sampler)
        self.steps = 0

    def _mean_loss(self, x, y):
        loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
        dist.all_reduce(loss)
        return loss / dist.get_world_size()

    def _step(self, x, y):
        loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return self.steps >= 1000

    def _loss(self, x, y):
        return torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())

    def _backward(self, loss):
        loss.backward()
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def fit(self):
        for epoch in range(10):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                mean = self._mean_loss(x, y)
                if mean > 100:
                    continue
                size = self._backward(self._loss(x, y))
                if not torch.isfinite(size):
                    continue
                done = self._step(x, y)
                if done:
                    break


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Trainer().fit()
# target: capability=8.0 processes=4
