# target: capability=8.0 processes=2
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if rank == 0:
    torch.zeros(1, device="cuda:0")  # rank 0's own
device = torch.device("cuda:0")  # expect: D201 error
if torch.cuda.device_count() == 1:
    other = torch.device("cuda:0")
model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(2, 4).to(device)).mean()
    loss.backward()
    opt.step()
