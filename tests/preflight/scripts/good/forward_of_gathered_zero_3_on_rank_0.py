# target: capability=8.0 processes=4
import deepspeed
import torch
import torch.distributed as dist
from net import Net
from data import dataset

config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}
model = Net()
engine, _, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=dataset(), config=config
)
for step, (x, y) in enumerate(loader):
    loss = torch.nn.functional.cross_entropy(engine(x.to(engine.device)), y.to(engine.device))
    engine.backward(loss)
    engine.step()
    if step % 100 == 0:
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            if dist.get_rank() == 0:
                print(engine(x.to(engine.device)).argmax(-1))
