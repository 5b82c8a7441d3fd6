import argparse

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, distributed):
        self.model = model
        if not distributed:
            self.bare = model
        else:
            self.model = torch.nn.parallel.DistributedDataParallel(model)
            self.bare = self.model.module

    def train(self, loader):
        optimizer = torch.optim.AdamW(self.bare.parameters())
        for batch in loader:
            self.model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def main(args, distributed):
    torch.cuda.set_device(args.local_rank)
    torch.distributed.init_process_group("nccl")
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    trainer = Trainer(torch.nn.Linear(4, 4).cuda(), distributed)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        trainer.train(loader)


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
main(parser.parse_args(), torch.cuda.device_count() > 1)
