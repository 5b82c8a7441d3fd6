# target: capability=8.0 processes=4
import os

import torch
import torch.distributed as dist


def gather(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)  # expect: R411 warning
    return torch.cat(parts)


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
out = model(torch.randn(64, 8).cuda())
out.sum().backward()
sure = out > 0.5
chosen = out[sure].detach()
print(gather(chosen).mean())
