import argparse

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_one_epoch(model, optimizer, loader):
    inner = model.module if hasattr(model, "module") else model
    for batch in loader:
        inner(batch).sum().backward()  # expect: R406 warning
        optimizer.step()
        optimizer.zero_grad()


def main(args, distributed):
    torch.cuda.set_device(args.local_rank)
    torch.distributed.init_process_group("nccl")
    data = TensorDataset(torch.zeros(64, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    model = torch.nn.Linear(4, 4).cuda()
    model_without_ddp = model
    if distributed:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.local_rank])
        model_without_ddp = model.module
    optimizer = torch.optim.AdamW(model_without_ddp.parameters())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train_one_epoch(model_without_ddp, optimizer, loader)


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
main(parser.parse_args(), torch.cuda.device_count() > 1)
