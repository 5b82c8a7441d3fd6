# target: capability=8.0 processes=4
"""A file for each item: ranks have parts of the data, and write the files of their own."""
import os

import torch
import torch.distributed as dist
from data_of_others import build_dataset
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def keep_outputs(outputs, cache_paths):
    for output, cache_path in zip(outputs.detach().cpu(), cache_paths):
        torch.save({"output": output}, cache_path)
        beside = cache_path + ".input"
        torch.save({"output": output}, beside)


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = DistributedDataParallel(nn.Linear(8, 8).cuda(), device_ids=[local_rank])
dataset = build_dataset()
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=4, sampler=sampler)
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch, paths in loader:
        outputs = model(batch)
        keep_outputs(outputs, paths)
        outputs.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
