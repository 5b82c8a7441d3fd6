# target: capability=8.0 processes=2
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from unread import Base


class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.1)
        self.activate = nn.ReLU()

    def forward(self, x):
        return self.first(x)


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.coarse = nn.Linear(4, 4)
        self.fine = nn.Linear(4, 4)

    def forward(self, x, part="fine"):
        return getattr(self, part)(x)


class InTurn(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.Linear(4, 4)
        self.upper = nn.Linear(4, 4)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.output = nn.Linear(4, 9, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.embedding(x) @ self.embedding.weight.t()


class Below(Base):
    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(4, 4)


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixing = nn.Linear(4, 4)


class Child(Parent):
    def forward(self, x):
        return self.mixing(x)


class Optional(nn.Module):
    def __init__(self, auxiliary=False):
        super().__init__()
        self.main = nn.Linear(4, 4)
        if auxiliary:
            self.second_head = nn.Linear(4, 4)

    def forward(self, x):
        return self.main(x)


class Outside(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.classifier = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x)


class Loose(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        return self.kept(x)


class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.top = nn.Linear(4, 4)

    def forward(self, x):
        return self.encoder(x)


torch.distributed.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
replaced = Replaced()
replaced.top = nn.Identity()
modules = [Called(), Chosen(), InTurn(), Tied(), Below(), Child(), Optional(), replaced]
wrapped = [DistributedDataParallel(module.cuda(), device_ids=[local_rank]) for module in modules]
called = DistributedDataParallel(Called().cuda(), device_ids=[local_rank])
chosen = DistributedDataParallel(Chosen().cuda(), device_ids=[local_rank])
in_turn = DistributedDataParallel(InTurn().cuda(), device_ids=[local_rank])
tied = DistributedDataParallel(Tied().cuda(), device_ids=[local_rank])
below = DistributedDataParallel(Below().cuda(), device_ids=[local_rank])
child = DistributedDataParallel(Child().cuda(), device_ids=[local_rank])
optional = DistributedDataParallel(Optional().cuda(), device_ids=[local_rank])
other = DistributedDataParallel(replaced.cuda(), device_ids=[local_rank])
outside = DistributedDataParallel(Outside().cuda(), device_ids=[local_rank], find_unused_parameters=True)
loose = DistributedDataParallel(Loose().cuda(), device_ids=[local_rank], find_unused_parameters=True)
for _ in range(9):
    x = torch.randn(2, 4, device="cuda")
    loss = called(x).sum() + chosen(x).sum() + in_turn(x).sum() + below(x).sum() + child(x).sum()
    loss = loss + optional(x).sum() + other(x).sum() + outside.module.classifier(outside(x)).sum() + loose(x).sum()
    loss.backward()
