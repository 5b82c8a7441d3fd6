# target: capability=8.0 processes=4
"""No line names `forward`: torch calls it, and it averages the gradients."""

import os

import torch
import torch.distributed as dist


class Averaged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, batch):
        for parameter in self.inner.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        return self.inner(batch)


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = Averaged().cuda()
optimizer = torch.optim.SGD(model.parameters())
for batch in torch.load("batches.pt"):
    model(batch.cuda()).sum().backward()
    optimizer.step()
