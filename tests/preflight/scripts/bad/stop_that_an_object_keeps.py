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


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.should_stop = patience, None, 0, False

    def step(self, loss):
        if self.best is None or loss < self.best:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
            self.should_stop = self.bad >= self.patience


def train(epoch):
    sampler.set_epoch(epoch)
    for x, y in train_loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(loader):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(model.module(x.cuda()), y.cuda()).item()
    return total / len(loader)


def by_stopper():
    stopper = EarlyStopping(3)
    for epoch in range(9):
        train(epoch)
        stopper.step(evaluate(val_loader))
        if stopper.should_stop:
            break  # expect: R404 warning


by_stopper()
