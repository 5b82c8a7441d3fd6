# target: capability=8.0 processes=4 args=
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.randn(64, 4), torch.zeros(64).long())
sampler = DistributedSampler(data)
train_loader = DataLoader(data, 8, sampler=sampler)
val_loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
model = DDP(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)


class Job:
    def __init__(self):
        self.loader, self.best, self.stop = val_loader, 0.0, False

    def validate(self):
        right = 0
        for x, y in self.loader:
            right += (model.module(x.cuda()).argmax(1).cpu() == y).sum().item()
        self.stop = right < self.best
        self.best = max(self.best, right)

    def fit(self):
        for epoch in range(9):
            train(epoch)
            self.validate()
            if self.stop:
                break  # expect: R404 warning


def train(epoch):
    sampler.set_epoch(epoch)
    for x, y in train_loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


Job().fit()
