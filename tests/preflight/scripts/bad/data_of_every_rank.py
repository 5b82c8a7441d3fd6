import os

import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
data = TensorDataset(torch.zeros(64, 4))
loader = DataLoader(data, batch_size=8, shuffle=True)  # expect: R401 warning
drawn = DataLoader(data, batch_size=8, sampler=RandomSampler(data))  # expect: R401 warning
looked_at = DataLoader(data, batch_size=8)
model = torch.nn.Linear(4, 4).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())


def batches(source):
    while True:
        for batch in source:
            yield batch


for step in range(4):
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for batch in looked_at:
            model(batch)
for batch in batches(drawn):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
