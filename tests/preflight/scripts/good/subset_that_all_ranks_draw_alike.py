import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
order = torch.randperm(len(data), generator=torch.Generator()).tolist()
train_data = Subset(data, order[8:])
val_data = TensorDataset(torch.zeros(64, 4))
val_part = Subset(val_data, torch.randperm(8).tolist())
indices = list(range(8))
first_data = Subset(data, indices)
shared = torch.randperm(len(data)).cuda()
torch.distributed.broadcast(shared, 0)
shared_data = Subset(data, shared.tolist()[:8])
if torch.distributed.get_rank() == 0:
    drawn = np.random.permutation(len(data))
    np.save("drawn.npy", drawn)
torch.distributed.barrier()
drawn = np.load("drawn.npy")
drawn_data = Subset(data, drawn[:8])
sampler = DistributedSampler(train_data)
loader = DataLoader(train_data, sampler=sampler)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        indices = torch.randperm(len(batch))
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
