# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from ignite.engine import Engine


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(engine, batch):
        model(batch.cuda()).sum().backward()
        optimizer.step()  # expect: R406 warning
        optimizer.zero_grad()

    Engine(update).run(torch.ones(64, 4).split(4), max_epochs=3)


main()
