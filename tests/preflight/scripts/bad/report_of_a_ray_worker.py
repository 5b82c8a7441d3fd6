# target: capability=8.0 processes=2
import ray.train
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model


def train(config):
    model = prepare_model(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    for _ in range(9):
        loss = model(torch.ones(4, 4)).sum()
        loss.backward()
        optimizer.step()
        if ray.train.get_context().get_world_rank() == 0:
            ray.train.report({"loss": loss.item()})  # expect: R404 error


TorchTrainer(train, train_loop_config={"lr": 0.1}, scaling_config=ScalingConfig(num_workers=2)).fit()
