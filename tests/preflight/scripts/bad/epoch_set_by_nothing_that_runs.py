import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Hook:
    def __init__(self, loader):
        self.loader = loader


class EpochHook(Hook):
    def before_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)


def with_hooks(loader):
    return [EpochHook(loader)]


class Criterion(torch.nn.Module):
    def set_epoch(self, epoch):
        self.weight = 1 / (1 + epoch)

    def forward(self, batch):
        return batch.sum() * self.weight


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
train_loader = DataLoader(data, sampler=DistributedSampler(data))  # expect: R403 warning
val_loader = DataLoader(data, batch_size=8)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = torch.optim.AdamW(model.parameters())
criterion = Criterion()
hooks = []
for epoch in range(3):
    print(epoch)  # train_loader.sampler.set_epoch(epoch)
    val_loader.sampler.set_epoch(epoch)
    criterion.set_epoch(epoch)
    for hook in hooks:
        hook.before_epoch(epoch)
    for batch in train_loader:
        criterion(model(batch)).backward()
        optimizer.step()
        optimizer.zero_grad()
