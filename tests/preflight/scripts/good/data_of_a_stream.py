import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        return iter(read())


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
loader = DataLoader(Stream(), batch_size=8, num_workers=2, persistent_workers=True, prefetch_factor=4)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
