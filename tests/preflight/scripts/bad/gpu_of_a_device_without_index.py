# target: capability=8.0 processes=4
"""The index of torch.device("cuda") is None: DDP then takes the current device, the first of every rank."""

import torch
from torch import nn

device = torch.device("cuda")
torch.distributed.init_process_group("nccl")  # expect: D205 error
model = nn.Linear(4, 4).to(device)
model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
