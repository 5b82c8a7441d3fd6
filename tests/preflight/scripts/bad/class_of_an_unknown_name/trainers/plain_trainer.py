import torch
import torch.distributed as dist

from .base import Trainer


class PlainTrainer(Trainer):
    def loss(self, batch):
        loss = self.model(batch).sum()
        if dist.get_rank() == 0:
            dist.all_reduce(loss)  # expect: R404 warning
        return loss


def unused(batch):
    torch.zeros(1).to("cuda:0")
