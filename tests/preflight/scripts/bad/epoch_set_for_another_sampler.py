import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Batches:
    def __init__(self, data):
        self.sampler = DistributedSampler(data)  # expect: R403 warning
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)

    def __iter__(self):
        yield from self.loader


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
batches = Batches(data)
held_out = DistributedSampler(data)
test_loader = DataLoader(data, batch_size=8, sampler=held_out)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    held_out.set_epoch(epoch)
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for batch in test_loader:
            model(batch)
