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


class CountingSampler(OwnSampler):
    def __iter__(self):
        self.epoch += 1
        return super().__iter__()


class OrderedSampler(OwnSampler):
    def __init__(self, *given, shuffle=False):
        super().__init__(*given)
        self.shuffle = shuffle

    def __iter__(self):
        if self.shuffle:
            return super().__iter__()
        return iter(range(self.rank, len(self.data), self.world + 0 * self.epoch))


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for made in (CountingSampler, OrderedSampler):
    loader = DataLoader(data, sampler=made(data, rank, world))
    for _epoch in range(3):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
order = OwnSampler(data, rank, world)
loader = DataLoader(data, sampler=order)
for epoch in range(3):
    order.epoch = epoch
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
