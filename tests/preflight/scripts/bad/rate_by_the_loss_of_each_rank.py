import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Validator:
    def __init__(self, data, device):
        self.loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
        self.device = device

    @torch.no_grad()
    def __call__(self, net):
        total = torch.zeros(2, device=self.device)
        for x, y in self.loader:
            total[0] += F.cross_entropy(net(x.to(self.device)), y.to(self.device), reduction="sum")
            total[1] += len(y)
        return (total[0] / total[1]).item()


def validate(net, loader, device):
    losses = []
    for x, y in loader:
        losses.append(F.cross_entropy(net(x.to(device)), y.to(device)).item())
    return {"loss": sum(losses) / len(losses)}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
device = torch.device("cuda", gpu)
data = TensorDataset(torch.randn(64, 4), torch.zeros(64, dtype=torch.long))
net = DistributedDataParallel(torch.nn.Linear(4, 4).to(device), device_ids=[gpu])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
other = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
sampler = DistributedSampler(data)
loader = DataLoader(data, 8, sampler=sampler)
test = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
measure = Validator(data, device)
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    plateau.step(measure(net))  # expect: R406 warning
    result = validate(net, test, device)
    other.step(result["loss"])  # expect: R406 warning
dist.destroy_process_group()
