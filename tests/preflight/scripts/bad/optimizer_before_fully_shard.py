import torch
from torch.distributed.fsdp import fully_shard

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
other = torch.nn.Linear(4, 4)
second = torch.optim.AdamW(other.parameters())  # expect: R407 warning
fully_shard(other)
for step in range(3):
    other(torch.zeros(4, 4)).sum().backward()
    second.step()
