import argparse

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
data = TensorDataset(torch.zeros(64, 4))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(8))


def perhaps(count):
    return DistributedSampler(data) if count > 1 else None


batches = BatchSampler(RandomSampler(data), 4, drop_last=True)
DataLoader(data, batch_size=8, shuffle=True, sampler=RandomSampler(data))  # expect: R402 error
DataLoader(data, 8, True, DistributedSampler(data))  # expect: R402 error
DataLoader(data, shuffle=True, sampler=perhaps(torch.cuda.device_count()))  # expect: R402 warning
DataLoader(data, batch_sampler=batches, batch_size=8)  # expect: R402 error
DataLoader(data, batch_sampler=batches, drop_last=True)  # expect: R402 error
DataLoader(Stream(), batch_size=8, shuffle=True)  # expect: R402 error
DataLoader(Stream(), batch_size=8, sampler=RandomSampler(data))  # expect: R402 error
DataLoader(data, num_workers=0, persistent_workers=True)  # expect: R402 error
DataLoader(data, num_workers=args.workers, persistent_workers=True)
DataLoader(data, prefetch_factor=4)  # expect: R402 error
