# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, WeightedRandomSampler

from videos import Lengths, Videos

accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
data = Videos()
rank, ranks = accelerator.process_index, accelerator.num_processes
own = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, num_replicas=ranks, rank=rank, seed=1))
weighted = DataLoader(data, batch_size=4, sampler=WeightedRandomSampler(data.weights, 900))
drawn = DataLoader(data, batch_size=4, sampler=RandomSampler(data))
by_length = DataLoader(data, batch_sampler=BatchSampler(Lengths(data), 4, drop_last=True))
plain = DataLoader(data, batch_size=4, shuffle=True)
whole = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)
alone = DataLoader(data, batch_size=4, sampler=whole)
model, optimizer, plain = accelerator.prepare(model, optimizer, plain)
weighted, drawn, by_length = accelerator.prepare(weighted, drawn, by_length)
alone = accelerator.prepare(alone)
for epoch in range(9):
    own.sampler.set_epoch(epoch)
    whole.set_epoch(epoch)
    for loader in (own, weighted, drawn, by_length, plain, alone):
        for x in loader:
            accelerator.backward(model(x.to(accelerator.device)).mean())
            optimizer.step()
            optimizer.zero_grad()
