# target: capability=8.0 processes=4
import ray.train.torch
import torch
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader
from data import dataset


def train(config):
    model = ray.train.torch.prepare_model(torch.nn.Linear(16, 4))
    loader = DataLoader(dataset(), batch_size=32, shuffle=True)  # expect: R401 warning
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()


TorchTrainer(train).fit()
