# target: capability=8.0 processes=4
import logging
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


class Trainer:
    log = logging.getLogger("quiet")

    def __init__(self):
        self.rank = dist.get_rank()
        local_rank = int(os.environ["LOCAL_RANK"])
        self.model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
        data = Images("train")
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if self.rank == 0:
            self.log = logging.getLogger("train")

    def train(self):
        for epoch in range(10):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                loss = torch.nn.functional.cross_entropy(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.log.info("epoch %d", epoch)

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
Trainer().train()
