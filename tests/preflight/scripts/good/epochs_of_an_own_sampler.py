import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset


class OwnSampler(Sampler):
    def __init__(self, data, rank, world):
        self.data, self.rank, self.world, self.epoch = data, rank, world, 0

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        return iter(torch.randperm(len(self.data), generator=generator).tolist()[self.rank :: self.world])

    def set_epoch(self, epoch):
        self.epoch = epoch


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
sampler = OwnSampler(data, rank, world)
loader = DataLoader(data, sampler=sampler)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
