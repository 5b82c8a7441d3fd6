import sys

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EpochHook:
    def __init__(self, loader):
        self.loader = loader

    def before_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)


def one_epoch(model, optimizer, loader, sampler, epoch):
    for number, batch in enumerate(loader):
        if number == 0:
            sampler.set_epoch(epoch)
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def main(name):
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
    data = TensorDataset(torch.zeros(64, 4))
    loader = DataLoader(data, sampler=DistributedSampler(data))
    again = DistributedSampler(data)
    other = DataLoader(data, sampler=again)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    hooks = [getattr(sys.modules[__name__], name)(loader)]
    epoch = 0
    while epoch < 3:
        for hook in hooks:
            hook.before_epoch(epoch)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        one_epoch(model, optimizer, other, again, epoch)
        epoch += 1


main("EpochHook")
