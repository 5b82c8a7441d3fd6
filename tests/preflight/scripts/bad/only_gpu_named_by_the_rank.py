import os

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")  # expect: D203 warning
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    model(torch.ones(4, 4, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
# target: capability=8.0 processes=4
