# target: capability=8.0 processes=4
"""Code that cannot be read may set the rank's device."""

import torch
from torch.nn.parallel import DistributedDataParallel

import house_of_helpers

torch.distributed.init_process_group("nccl")  # expect: D205 warning
house_of_helpers.setup()
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(3):
    model(batch).sum().backward()
    optimizer.step()
