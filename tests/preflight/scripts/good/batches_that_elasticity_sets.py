"""DeepSpeed's elasticity computes the batch sizes, and ignores those of the config."""

import deepspeed
import torch

config = {
    "train_batch_size": 100,
    "train_micro_batch_size_per_gpu": 7,
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 2000,
        "micro_batch_sizes": [2, 4, 6],
        "ignore_non_elastic_batch_info": True,
    },
    "optimizer": {"type": "Adam"},
}
model = torch.nn.Linear(4, 2)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(5):
    loss = engine(torch.randn(4, 4, device=engine.device)).sum()
    engine.backward(loss)
    engine.step()
