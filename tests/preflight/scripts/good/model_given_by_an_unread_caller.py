# target: capability=8.0 processes=4
import torch
import torch.distributed as dist


def fit(model, loader, lr):
    dist.init_process_group("nccl")
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
