# target: capability=8.0 processes=4
"""Each rank downloads into one folder, and draws its own validation data; what one rank does is its affair."""

import os

import torch
import torch.distributed as dist
from datasets import load_dataset
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, DistributedSampler, random_split
from torchvision import datasets

extra = datasets.MNIST("data", download=True)  # expect: R405 warning
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
data = datasets.CIFAR10("data", train=True, download=True)  # expect: R405 warning
names = datasets.CIFAR10("data", train=False, download=False)
train, val = random_split(data, [45000, 5000])  # expect: R410 warning
ids, held = train_test_split(range(100), test_size=0.1)  # expect: R410 warning
parts = load_dataset("json")["train"].train_test_split(0.1)  # expect: R410 warning
kept, rest = train_test_split(range(100), test_size=0.1, random_state=0)
if dist.get_rank() == 0:
    shown, _ = random_split(data, [8, 49992])
sampler = DistributedSampler(train)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in DataLoader(train, batch_size=8, sampler=sampler):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
