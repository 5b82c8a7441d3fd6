# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler

from videos import Videos

accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
data = Videos()
sampler = DistributedSampler(data, num_replicas=accelerator.num_processes, rank=accelerator.process_index)
loader = DataLoader(data, batch_size=4, sampler=sampler, drop_last=True)  # expect: R417 warning
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(9):
    sampler.set_epoch(epoch)
    for x in loader:
        accelerator.backward(model(x).mean())
        optimizer.step()
        optimizer.zero_grad()
