import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)

    def fetch(self):
        try:
            return self.batches.next() if torch.__version__ < "1.7" else next(self.batches)
        except StopIteration:
            return None


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
loader = DataLoader(data, sampler=DistributedSampler(data))  # expect: R403 warning
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for _epoch in range(3):
    prefetcher = Prefetcher(loader)
    for _step in range(len(loader)):
        model(prefetcher.fetch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
