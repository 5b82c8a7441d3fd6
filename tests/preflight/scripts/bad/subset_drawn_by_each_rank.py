import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
order = torch.randperm(len(data)).tolist()
held, kept = order[:8], order[8:]
train_data = Subset(data, kept)  # expect: R410 warning
numbers = list(range(64))
np.random.shuffle(numbers)
more_data = Subset(data, indices=numbers[:32])  # expect: R410 warning
sampler = DistributedSampler(train_data)
loader = DataLoader(train_data, sampler=sampler)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
