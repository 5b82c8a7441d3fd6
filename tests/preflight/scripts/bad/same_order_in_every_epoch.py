import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def loop(model, optimizer, loader):
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
sampler = DistributedSampler(data, drop_last=True)  # expect: R403 warning
ordered = DistributedSampler(data, shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
again = DistributedSampler(data)  # expect: R403 warning
for epoch in range(3):
    again.set_epoch(0)
    loop(model, optimizer, DataLoader(data, batch_size=8, sampler=again))
    loop(model, optimizer, loader)
    loop(model, optimizer, DataLoader(data, batch_size=8, sampler=ordered))
loop(model, optimizer, DataLoader(data, batch_size=8, sampler=DistributedSampler(data)))
