# target: capability=7.5 processes=2
"""A class that derives from Optimizer steps as any other does."""

import os

import torch
import torch.distributed as dist


class Lars(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["lr"])


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
optimizer = Lars([{"params": [each for each in model.parameters() if each.ndim > 1]}], lr=0.1)
scaler = torch.amp.GradScaler()
for batch in torch.load("batches.pt"):
    with torch.autocast("cuda", torch.float16):
        loss = model(batch.cuda()).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()  # expect: P129 warning
    scaler.update()
