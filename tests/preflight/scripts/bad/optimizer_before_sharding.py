import torch
from torch.distributed.fsdp import FullyShardedDataParallel

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())  # expect: R407 warning
model = FullyShardedDataParallel(model)
kept = torch.nn.Linear(4, 4)
second = torch.optim.AdamW(kept.parameters())
kept = FullyShardedDataParallel(kept, use_orig_params=True)
for step in range(3):
    for net, steps in ((model, optimizer), (kept, second)):
        net(torch.zeros(4, 4)).sum().backward()
        steps.step()
