# target: capability=8.0 processes=2
import functools

import torch


def on_device(device):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            kwargs["device"] = torch.device(device)
            return function(*args, **kwargs)

        return wrapper

    return decorate


@on_device("cuda:0")  # expect: D201 error
def train(steps, device=None):
    model = torch.nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(4, 4, device=device)).sum().backward()
        optimizer.step()


train(3)
