# target: capability=8.0 processes=4
import time
from pathlib import Path

import deepspeed
import torch
from torch.utils.data import DataLoader
from data import dataset

CONFIG = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}


def main():
    model = torch.nn.Linear(16, 4)
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=dataset(), config=CONFIG
    )
    folder = Path("runs") / str(int(time.time()))  # expect: R416 warning
    for x, y in loader:
        engine.backward(torch.nn.functional.cross_entropy(engine(x.cuda()), y.cuda()))
        engine.step()
    engine.save_checkpoint(str(folder))


main()
