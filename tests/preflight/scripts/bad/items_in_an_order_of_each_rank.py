import os
import random

import torch
import torch.distributed as dist
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pairs(Dataset):
    def __init__(self, path):
        pairs = torch.load(path, map_location="cpu")
        random.shuffle(pairs)  # expect: R410 warning
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
texts = load_dataset("text", split="train", streaming=True)
texts = texts.shuffle(buffer_size=1000)  # expect: R410 warning
texts = split_dataset_by_node(texts, rank=dist.get_rank(), world_size=dist.get_world_size())
pairs = Pairs("pairs.pt")
sampler = DistributedSampler(pairs)
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(pairs, batch_size=8, sampler=sampler):
        torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
# target: capability=8.0 processes=4
