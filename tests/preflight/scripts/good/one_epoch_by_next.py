import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
loader = DataLoader(data, sampler=DistributedSampler(data))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
batches = iter(loader)
for _step in range(8):
    model(next(batches)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
