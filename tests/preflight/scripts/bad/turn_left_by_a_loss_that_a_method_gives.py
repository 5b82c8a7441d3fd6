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

    def _loss(self, x, y):
        out = self.model(x.cuda())
        return torch.nn.functional.mse_loss(out, y.cuda())

    def fit(self):
        for epoch in range(10):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                loss = self._loss(x, y)
                if not torch.isfinite(loss):
                    continue  # expect: R404 warning
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Trainer().fit()
# target: capability=8.0 processes=4
