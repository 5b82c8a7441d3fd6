import fire
import torch
from somewhere import build
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def one_epoch(state, loaders, model, optimizer):
    epoch = state["epoch"]
    for loader in loaders:
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    state["epoch"] += 1


def both(epochs=3):
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
    data = TensorDataset(torch.zeros(64, 4))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    loaders = [DataLoader(data, sampler=DistributedSampler(data)) for _ in range(2)]
    state = {"epoch": 0}
    for _ in range(epochs):
        one_epoch(state, loaders, model, optimizer)


def one(epochs=3):
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
    data = TensorDataset(torch.zeros(64, 4))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    parts = build(sampler)
    for epoch in range(epochs):
        parts.dataset_sampler.set_epoch(epoch)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


fire.Fire()
