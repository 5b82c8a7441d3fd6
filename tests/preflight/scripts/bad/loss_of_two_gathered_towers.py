# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from data import Images


def contrast(image, text):
    images = [torch.zeros_like(image) for _ in range(dist.get_world_size())]
    texts = [torch.zeros_like(text) for _ in range(dist.get_world_size())]
    dist.all_gather(images, image)
    dist.all_gather(texts, text)
    image = torch.cat(images)
    text = torch.cat(texts)
    logits = torch.matmul(image, text.t())  # expect: R421 warning
    return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits), device="cuda"))


dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
data = Images("train")
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = contrast(model(x.cuda()), model(y.cuda()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
